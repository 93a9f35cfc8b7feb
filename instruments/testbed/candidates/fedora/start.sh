#!/bin/sh
# Runs Fedora: start.sh FOLDER DATA JARS HTTP-PORT JMS-PORT STOMP-PORT [OPTION-OF-JAVA…]
set -eu
folder=$1 data=$2 jars=$3 http=$4 jms=$5 stomp=$6
shift 6
cd "$data"
exec java -Xmx1g "-Xlog:gc*:file=$data/gc.log:uptime,tags" \
    --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.util=ALL-UNNAMED \
    "-Dfcrepo.home=$data/fcrepo" "-Dfcrepo.dynamic.jms.port=$jms" "-Dfcrepo.dynamic.stomp.port=$stomp" \
    "-Dtestbed.realm=$data/realm.properties" "$@" \
    -jar "$jars/jetty-runner-9.4.57.v20241219.jar" --host 127.0.0.1 --port "$http" --path / \
    --config "$folder/jetty.xml" "$jars/fcrepo-webapp-6.1.0.war"
