#!/bin/bash
# The highest rates of commands by redis-benchmark, of Penates beside Redis at the same durability, in turn, with
# values of 400 bytes of 1,000,000 keys: records-peak.sh DIR [CONNECTIONS [AT-ONCE [REPETITIONS]]]
# PENATES names the program. It needs redis-server and redis-tools. DIR must be on the disk that matters.
set -eu
dir=$1 connections=${2:-50} at_once=${3:-1} repetitions=${4:-3}
# shellcheck source=server.sh
. "$(dirname "$0")/server.sh"
mkdir -p "$dir/penates" "$dir/redis"
server 7101 "${PENATES:-penates}" serve --init --store "$dir/penates" --set auth.write=open --set records.deadline=30s \
    --records-listen 127.0.0.1:7101 --listen 127.0.0.1:7102 --tls-listen off
server 7103 redis-server --bind 127.0.0.1 --port 7103 --dir "$dir/redis" --save '' --appendonly yes --appendfsync always

values() { # The words of a record: five attributes of 72 bytes that differ in each request.
    for name in segments last_seen caps model region; do
        printf '%s %s__rand_int__ ' "$name" "$(head -c 30 /dev/urandom | od -An -tx1 | tr -d ' \n')"
    done
}
value=$(head -c 194 /dev/urandom | od -An -tx1 | tr -d ' \n')__rand_int__
run() { # PORT REQUESTS COMMAND…
    local port=$1 requests=$2
    shift 2
    redis-benchmark -p "$port" -c "$connections" -P "$at_once" -r 1000000 -n "$requests" --csv "$@" | tail -1
}
for repetition in $(seq 0 "$repetitions"); do
    for port in 7101 7103; do
        name=$([ "$port" = 7101 ] && echo Penates || echo Redis)
        for command in "SET key:__rand_int__ $value" "GET key:__rand_int__" \
            "HSET user:__rand_int__ $(values)" "HGETALL user:__rand_int__"; do
            # shellcheck disable=SC2086
            rate=$(run "$port" "${REQUESTS:-200000}" $command | awk -F '","' '{ print $2 }')
            # The first round writes what later ones read.
            [ "$repetition" = 0 ] || echo "$name ${command%% *}: $rate requests/s"
        done
    done
done
