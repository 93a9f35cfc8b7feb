#!/bin/sh
# Prints the configuration of the servers, and what the nodes report: configuration.sh PROGRAM DATA PORT
# Servers differ only in their ports, and nodes only in their addresses and tokens.
set -eu
"$1" config --store "$(cat "$2/store")" --listen "127.0.0.1:$3" --tls-listen off
sed 's/,"pid":[0-9]*//' "$2/nodes"
cat "$2/cassandra/node1/conf/cassandra.yaml"
