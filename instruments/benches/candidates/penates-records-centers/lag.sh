#!/bin/bash
# How long a write in one data center takes until a read in the other one sees it: lag.sh PORT PORT
# 500 writes; prints the median and the p99 in microseconds.
set -eu
exec 3<> "/dev/tcp/127.0.0.1/$1" 4<> "/dev/tcp/127.0.0.1/$2"
ask() { # FILE WORD… : the last line of a short answer
    local file=$1 line
    shift
    { printf '*%d\r\n' "$#"; for word; do printf '$%d\r\n%s\r\n' "${#word}" "$word"; done; } >&"$file"
    read -r line <&"$file"
    case $line in '$-1'*) ;; '$'*) read -r line <&"$file" ;; esac
    answer=${line%$'\r'}
}
for ((n = 1; n <= 500; n++)); do
    ask 3 HSET probe number "$n"
    written=${EPOCHREALTIME/./}
    until ask 4 HGET probe number; [ "$answer" = "$n" ]; do :; done
    echo $((${EPOCHREALTIME/./} - written))
    sleep 0.02
done | sort -n | awk '{ all[NR] = $1 } END { print "a write arrives: median", all[int(NR / 2)], "p99", all[int(NR * 0.99)], "µs" }'
