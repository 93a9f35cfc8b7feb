#!/bin/sh
# Prints what Fedora runs with: configuration.sh DATA HTTP-PORT
set -eu
java -version 2>&1
# The command line of the process that listens, with all its options.
for process in /proc/[0-9]*; do
    tr '\0' ' ' < "$process/cmdline" 2>/dev/null | grep -a -- "--port $2 --path / " || true
done
find "$1/fcrepo/data/ocfl-root/extensions" -maxdepth 2 -name config.json 2>/dev/null | while read -r file; do
    echo "$file"
    cat "$file"
    echo
done
