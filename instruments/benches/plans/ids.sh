#!/bin/sh
# Makes lists of the ids of `penates-volumes` for the plans beside this file: the first 500 and all 5,000, each
# in twenty orders.
set -eu
cd "$(dirname "$0")"
for count in 500 5000; do
    mkdir -p "ids-$count"
    for first in $(seq 0 19); do
        seq 0 $((count - 1)) | awk -v "count=$count" -v "first=$first" \
            '{ print "synth.ark:/99999/s1v" ($1 + first) % count }' > "ids-$count/$first"
    done
done
