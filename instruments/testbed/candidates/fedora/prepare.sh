#!/bin/sh
# Makes a user with a password of this run: prepare.sh DATA
set -eu
umask 077
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "fedoraAdmin: $password,fedoraAdmin" > "$1/realm.properties"
echo "Basic $(printf 'fedoraAdmin:%s' "$password" | base64 -w0)" > "$1/authorization"
