#!/bin/sh
# Starts, stops or kills a server while others run: server.sh start|stop|kill PENATES DATA PORT
# It ends when the server listens, or has ended.
set -eu
what=$1 penates=$2 data=$3 port=$4
server=$data/server-$port
if [ "$what" = start ]; then
    : > "$server.log"
    sh "$(dirname "$0")/serve.sh" "$penates" "$data" "$port" >> "$server.log" 2>&1 &
    pid=$!
    until grep -q '^Listening on http' "$server.log"; do
        if ! kill -0 "$pid" 2> /dev/null; then
            cat "$server.log"
            exit 1
        fi
        sleep 0.1
    done
    exit
fi
pid=$(cat "$server.pid")
case $what in
stop) kill -TERM "$pid" ;;
kill) kill -KILL "$pid" ;;
esac
# A process that has ended, and that nobody has waited for yet, is a zombie.
while [ -e "/proc/$pid/stat" ] && ! grep -q ') Z ' "/proc/$pid/stat" 2> /dev/null; do
    sleep 0.1
done
