#!/bin/sh
# Adds a node to the cluster while it runs, and removes it for good:
# node.sh add LARES DATA TOKEN, node.sh remove LARES DATA
# TOKEN is the end of the node's range of the ring. `lares cluster` keeps the number of its nodes.
# So the further node is a cluster in a folder of its own, which joins the first one. The script ends
# when the node has fetched its part of the data, or has given it to the others and has ended.
set -eu
what=$1 lares=$2 data=$3
further=$data/further-node
if [ "$what" = add ]; then
    token=$4
    seed=$(sed -n 's/.*"cql":"\([0-9.]*\):.*/\1/p' "$data/nodes" | head -n 1)
    provider=org.apache.cassandra.locator.SimpleSeedProvider
    # A node that was added before is still there.
    mkdir "$further"
    : > "$further.json"
    # As the other nodes.
    agent=$(cat "$data/jolokia" 2> /dev/null) || agent=
    # In its folder the node is a seed, which would wait for others for a second only.
    seeds="[{\"class_name\":\"$provider\",\"parameters\":[{\"seeds\":\"$seed:7000\"}]}]"
    "$lares" cluster up --folder "$further" --nodes 1 --up-within 10m --json \
        --yaml gc_log_threshold=50ms --yaml auto_bootstrap=true \
        --yaml "initial_token=\"$token\"" --yaml "seed_provider=$seeds" \
        --jvm-option -Dcassandra.ring_delay_ms=6000 ${agent:+--jvm-option "$agent"} \
        > "$further.json" 2> "$further.log" &
    pid=$!
    until grep -q '"cql"' "$further.json"; do
        if ! kill -0 "$pid" 2> /dev/null; then
            cat "$further.log"
            exit 1
        fi
        sleep 0.1
    done
    exit
fi
status=$("$lares" cluster status --folder "$further" --json)
pid=$(printf '%s\n' "$status" | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
jmx=$(printf '%s\n' "$status" | sed -n 's/.*"jmx":"\([^"]*\)".*/\1/p')
# Cassandra's own command runs with the same Java, modules and jars as the node.
words=$(tr '\0' '\n' < "/proc/$pid/cmdline")
java=$(printf '%s\n' "$words" | head -n 1)
modules=$(printf '%s\n' "$words" | grep '^--add-')
jars=$(printf '%s\n' "$words" | sed -n '/^-cp$/ { n; p; }')
# By force: Cassandra's own keyspaces should have more copies than a small cluster has nodes.
# Each line of `modules` is a word.
"$java" $modules -Xmx128m -cp "$jars" "-Dcassandra.logdir=$further" \
    org.apache.cassandra.tools.NodeTool -h "${jmx%:*}" -p "${jmx##*:}" decommission --force
"$lares" cluster down --folder "$further"
rm -r "$further"
