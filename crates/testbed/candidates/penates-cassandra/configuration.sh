#!/bin/sh
# Prints the configuration in force in a server, and what the nodes are started with:
# configuration.sh PROGRAM DATA PORT
# Servers differ only in their ports, and nodes only in their addresses and tokens.
set -eu
cd "$2"
"$1" config --running --socket "server-$3.sock"
sed 's/,"pid":[0-9]*//' nodes
cat cassandra/node1/conf/cassandra.yaml
