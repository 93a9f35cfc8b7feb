#!/bin/sh
# Prints the configuration of the servers, and what the nodes report: configuration.sh PROGRAM DATA
set -eu
store=$(cat "$2/store")
"$1" config --store "$store" --tls-listen off --set auth.write=open --set limits.drain=0s
cat "$2/nodes"
cat "$2"/cassandra/node-1/conf/cassandra.yaml 2>/dev/null || find "$2/cassandra" -name cassandra.yaml | sort | head -n 1 | xargs -r cat
