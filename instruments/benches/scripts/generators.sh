#!/bin/bash
# What a request costs the testbed's generator, beside k6, wrk and hey: generators.sh RATE SECONDS [CONNECTIONS]
# Each sends GET / to a server that does nothing, on the last processor; the server is on the first. Open loops
# have RATE requests/s. `user` and `sys` over the successful answers are the processor time of each.
# LARES names the program. A generator that is not installed is left out.
set -eu
rate=$1 seconds=$2 connections=${3:-50} lares=${LARES:-lares} dir=$(mktemp -d)
# shellcheck source=server.sh
. "$(dirname "$0")/server.sh"
server 7105 taskset -c 0 "$lares" testbed null --listen 127.0.0.1:7105
url=http://127.0.0.1:7105/
run() {
    type -P "$1" > /dev/null || { echo "$1 is not installed"; return; }
    echo "== $*"
    time taskset -c "$(($(nproc) - 1))" "$@" || :
}
k6() {
    echo "import http from 'k6/http'; export const options = { discardResponseBodies: true, scenarios: { load: { $1,
        duration: '${seconds}s' } } }; export default function () { http.get('$url'); }" > "$dir/load.js"
    run k6 run --quiet --no-usage-report "$dir/load.js"
}
penates() {
    printf '%s\n' 'name = "generators"' 'workers = 1' 'scenarios = [{ scenario = "get" }]' \
        'connections = { keep = "worker" }' "load = { $1, duration = \"${seconds}s\" }" > "$dir/plan.toml"
    run "$lares" testbed run "$dir/plan.toml" --url "$url" --archive "$dir/runs" --untraceable --busy
}
penates "shape = \"constant\", rate = $rate"
k6 "executor: 'constant-arrival-rate', rate: $rate, timeUnit: '1s', preAllocatedVUs: $connections, maxVUs: 20000"
penates "shape = \"closed\", users_per_worker = $connections"
k6 "executor: 'constant-vus', vus: $connections"
run wrk -t1 -c "$connections" -d "${seconds}s" "$url"
run hey -c "$connections" -z "${seconds}s" "$url"
