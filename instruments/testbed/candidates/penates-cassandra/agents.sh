#!/bin/sh
# Prints the nodes with the addresses of their agents, or with why they have none: agents.sh DATA
set -eu
why=$(head -n 1 "$1/jolokia.log" 2> /dev/null) || why=
sed -n 's/.*"node":\([0-9]*\).*"cql":"\([0-9.]*\):.*/\1 \2/p' "$1/nodes" | while read -r node address; do
    if [ -s "$1/jolokia" ]; then
        echo "node$node http://$address:8778/jolokia"
    else
        echo "node$node ${why:-the agent is missing}"
    fi
done
