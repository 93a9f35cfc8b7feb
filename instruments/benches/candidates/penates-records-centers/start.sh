#!/bin/bash
# Starts two data centers of Cassandra with a node each, and a server in each:
# start.sh LARES PENATES DATA REDIS1 REDIS2 HTTP1 HTTP2
set -eu
lares=$1 penates=$2 data=$3 redis=("$4" "$5") http=("$6" "$7")
trap : TERM INT

"$lares" cluster up --folder "$data/cassandra" --datacenters 2 --nodes 2 --commitlog-sync batch --json \
    > "$data/nodes.new" &
cluster=$!
until [ "$(grep -c '"cql"' "$data/nodes.new")" -ge 2 ]; do
    kill -0 "$cluster"
    sleep 0.2
done
mapfile -t nodes < <(sed -n 's/.*"cql":"\([^"]*\)".*/\1/p' "$data/nodes.new")
[ -e "$data/nodes" ] || "$penates" init --store "cassandra://${nodes[0]}/records" \
    --replication dc1=1,dc2=1 --set cassandra.datacenter=dc1
mv "$data/nodes.new" "$data/nodes"
for center in 0 1; do
    "$penates" serve --store "cassandra://${nodes[$center]}/records" --set "cassandra.datacenter=dc$((center + 1))" \
        --set records.mode=fast --set records.deadline=10ms --set cassandra.record_read=LOCAL_ONE \
        --set cassandra.record_write=LOCAL_QUORUM --records-listen "127.0.0.1:${redis[$center]}" \
        --listen "127.0.0.1:${http[$center]}" --tls-listen off &
done
# A signal ends `wait`, and not what it waits for.
while :; do
    status=0
    wait || status=$?
    [ "$status" -gt 128 ] || exit "$status"
done
