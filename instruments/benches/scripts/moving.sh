#!/bin/sh
# Moving in: how long `penates load` takes for the storage root of a Fedora, beside the rate at which that Fedora
# took the same resources in: moving.sh DIR. PENATES and LARES name the programs.
set -eu
dir=$1
"${LARES:-lares}" testbed run "$(dirname "$0")/../plans/ingest.toml" --candidate fedora --times 4 --untraceable \
    --busy --data "$dir/fedora" --archive "$dir/runs"
root=$(find "$dir/fedora" -type d -name ocfl-root)
time "${PENATES:-penates}" load "$root" --init --store "$dir/moved"
