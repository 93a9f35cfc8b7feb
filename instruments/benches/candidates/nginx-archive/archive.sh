#!/bin/sh
# Makes the archive that nginx and ZipServer send, unless its folder has one: the first 500 volumes of
# `penates-volumes`, as the data door sends them. archive.sh PENATES DATA
set -eu
mkdir -p "$2/files"
[ ! -e "$2/files/archive" ] || exit 0
new=$2/new
rm -rf "$new"
"$1" synth --volumes 500 --seed 1 --init --store "$new"
"$1" ls --store "$new" > "$2/ids.txt"
"$1" get --store "$new" --ids "$2/ids.txt" -o "$2/files/archive.new"
mv "$2/files/archive.new" "$2/files/archive"
rm -rf "$new"
