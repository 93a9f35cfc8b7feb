#!/bin/sh
# Runs a command in a control group (version 2) with so many bytes of memory: start.sh BYTES COMMAND…
set -eu
group=/sys/fs/cgroup/penates-records-small
mkdir -p "$group"
echo "$1" > "$group/memory.max"
echo 0 > "$group/memory.swap.max"
echo $$ > "$group/cgroup.procs"
shift
exec "$@"
