#!/bin/sh
# Makes the archive that nginx sends for /volumes, unless its folder has one: four volumes of
# `penates synth` as the data door of Penates sends them. archive.sh PENATES DATA
set -eu
archive=$2/files/volumes new=$2/new
[ ! -e "$archive" ] || exit 0
rm -rf "$new"
mkdir "$new"
"$1" synth --volumes 4 --store "$new/store" --init
"$1" ls --store "$new/store" > "$new/ids.txt"
"$1" get --store "$new/store" --ids "$new/ids.txt" -o "$new/volumes"
mv "$new/volumes" "$archive"
rm -rf "$new"
