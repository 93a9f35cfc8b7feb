#!/bin/sh
# Runs a server on the cluster, and keeps the id of its process: serve.sh PENATES DATA PORT
# Its other settings are variables: of candidate.toml, and those that the start script has kept. A socket
# tells its configuration. The path of one has at most 107 characters, so it is a relative one.
set -eu
echo $$ > "$2/server-$3.pid"
cd "$2"
[ ! -e settings ] || . ./settings
export PENATES_LISTEN__ADMIN="unix:server-$3.sock"
exec "$1" serve --store "$(cat "$2/store")" --listen "127.0.0.1:$3" --tls-listen off
