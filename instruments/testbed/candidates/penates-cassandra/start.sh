#!/bin/sh
# Starts a cluster of Cassandra, and servers in front of it: start.sh LARES PENATES DATA NODES PORT… [SETTING=VALUE…]
# All of them get the signal that ends this script, and the script waits for them.
set -eu
lares=$1 penates=$2 data=$3 nodes=$4
shift 4
ports=''
: > "$data/settings"
for word; do
    case $word in
    *=*)
        name=$(printf '%s' "${word%%=*}" | tr '[:lower:]' '[:upper:]' | sed 's/\./__/g')
        printf "export PENATES_%s='%s'\n" "$name" "${word#*=}" >> "$data/settings"
        ;;
    *) ports="$ports $word" ;;
    esac
done
trap : TERM INT

if [ -e "$data/further-node" ]; then
    echo "An earlier run has added a node to the cluster in $data: use another folder." >&2
    exit 1
fi

# The option that starts the agent of Jolokia. Without it nodes run all the same.
"$lares" testbed jolokia > "$data/jolokia" 2> "$data/jolokia.log" || : > "$data/jolokia"
agent=$(cat "$data/jolokia")

# Cassandra logs pauses of 200 ms and more unless set.
"$lares" cluster up --folder "$data/cassandra" --nodes "$nodes" --yaml gc_log_threshold=50ms --json \
    ${agent:+--jvm-option "$agent"} > "$data/nodes.new" &
cluster=$!
until [ "$(grep -c '"cql"' "$data/nodes.new")" -ge "$nodes" ]; do
    kill -0 "$cluster"
    sleep 0.2
done
mv "$data/nodes.new" "$data/nodes"

addresses=$(sed -n 's/.*"cql":"\([^"]*\)".*/\1/p' "$data/nodes" | paste -s -d , -)
store=cassandra://$addresses/testbed
copies=$nodes
[ "$copies" -le 3 ] || copies=3
[ -e "$data/is-initialized" ] || "$penates" init --store "$store" --replication "dc1=$copies"
: > "$data/is-initialized"
echo "$store" > "$data/store"

for port in $ports; do
    sh "$(dirname "$0")/serve.sh" "$penates" "$data" "$port" &
done
# A signal ends `wait`, and not what it waits for.
while :; do
    status=0
    wait || status=$?
    [ "$status" -gt 128 ] || exit "$status"
done
