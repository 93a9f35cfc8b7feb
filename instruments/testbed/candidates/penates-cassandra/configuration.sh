#!/bin/sh
# Prints what is in force in a server and in the first node, as they say themselves:
# configuration.sh LARES PENATES DATA PORT
# Servers differ only in their ports, and nodes only in their addresses and tokens.
set -eu
cd "$3"
"$2" config --running --socket "server-$4.sock"
sed 's/,"pid":[0-9]*//' nodes
first=$(grep '"cql"' nodes | head -n 1)
address=$(printf '%s\n' "$first" | sed 's/.*"cql":"\([^"]*\)".*/\1/')
pid=$(printf '%s\n' "$first" | sed 's/.*"pid":\([0-9]*\).*/\1/')
"$1" testbed cassandra "$address"
# The command line of its Java, with its heap.
tr '\0' '\n' < "/proc/$pid/cmdline"
