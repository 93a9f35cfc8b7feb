#!/bin/bash
# How fast Penates takes 100,000 resources in one N-Quads request: quads.sh DIR. PENATES names the program.
set -eu
dir=$1
# shellcheck source=server.sh
. "$(dirname "$0")/server.sh"
server 7104 "${PENATES:-penates}" serve --init --store "$dir/data" --set auth.write=open --listen 127.0.0.1:7104 \
    --tls-listen off
seq 0 99999 | awk '{ name = sprintf("<http://localhost/rest/many/%07d>", $1)
    print name, "<http://purl.org/dc/terms/title> \"" $1 "\"", name, "." }' > "$dir/many.nq"
put() { curl -fsS -H 'Host: localhost' "$@"; }
put -X PUT -H 'Content-Type: text/turtle' -H 'Link: <http://www.w3.org/ns/ldp#BasicContainer>; rel="type"' \
    -d '<> <http://purl.org/dc/terms/title> "Many" .' http://127.0.0.1:7104/rest/many
made=$(put -w '%{stderr}%{time_total} s\n' -H 'Content-Type: application/n-quads' --data-binary "@$dir/many.nq" \
    -H 'Link: <http://www.w3.org/ns/ldp#RDFSource>; rel="type"' http://127.0.0.1:7104/rest/many | grep -c '"status":201')
echo "$made resources"
