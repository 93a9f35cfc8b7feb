#!/bin/sh
# Runs a server on the cluster, and keeps the id of its process: serve.sh PROGRAM DATA PORT
# Its other settings are variables of candidate.toml.
set -eu
echo $$ > "$2/server-$3.pid"
exec "$1" serve --store "$(cat "$2/store")" --listen "127.0.0.1:$3" --tls-listen off
