#!/bin/sh
# Runs PostgreSQL and Fedora on it: start-all.sh FOLDER DATA JARS HTTP-PORT JMS-PORT STOMP-PORT SQL-PORT
# Both get the signal that ends this script, and the script waits for them.
set -eu
folder=$1 data=$2 jars=$3 http=$4 jms=$5 stomp=$6 sql=$7
trap : TERM INT
for bin in /usr/lib/postgresql/*/bin; do
    PATH=$bin:$PATH
done
database=$data/postgresql
mkdir -p "$database"
as=
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL does not run as the superuser, and its user must reach the folder.
    as="setpriv --reuid=postgres --regid=postgres --init-groups"
    chown -R postgres: "$database"
    # Temporary folders are the testbed's own. The rights of others are their owners' to change.
    case $(basename "$(dirname "$data")") in
    .tmp*) chmod o+x "$data" "$(dirname "$data")" ;;
    esac
    if ! $as test -x "$database"; then
        echo "The user postgres cannot reach $database. Name a folder that others may pass through" \
            "(chmod o+x on it and on those above it), or leave out --data." >&2
        exit 1
    fi
fi
chmod 700 "$database"
cd "$database"
[ -e PG_VERSION ] || $as initdb -D "$database" -U fcrepo -A trust -E UTF8 --no-locale > "$data/initdb.log"
# Without a socket: all connect over TCP, and the path of a socket has at most 107 characters.
$as postgres -D "$database" -h 127.0.0.1 -p "$sql" -k '' &
postgres=$!
until pg_isready -q -h 127.0.0.1 -p "$sql" -U fcrepo; do
    kill -0 "$postgres"
    sleep 0.1
done
psql -q -h 127.0.0.1 -p "$sql" -U fcrepo -d postgres -lqt | grep -q '^ *fcrepo ' ||
    createdb -h 127.0.0.1 -p "$sql" -U fcrepo fcrepo
psql -h 127.0.0.1 -p "$sql" -U fcrepo -c 'SHOW ALL' -At > "$data/postgresql.settings"
sh "$folder/start.sh" "$folder" "$data" "$jars" "$http" "$jms" "$stomp" \
    "-Dfcrepo.db.url=jdbc:postgresql://127.0.0.1:$sql/fcrepo" -Dfcrepo.db.user=fcrepo -Dfcrepo.db.password=none &
# A signal ends `wait`, and not what it waits for.
while :; do
    status=0
    wait || status=$?
    [ "$status" -gt 128 ] || exit "$status"
done
