# Starts a server that ends with the script which reads this file: server PORT COMMAND…
server() {
    port=$1
    shift
    "$@" > "$dir/$port.log" 2>&1 &
    servers="${servers:-} $!"
    # shellcheck disable=SC2064
    trap "kill $servers 2> /dev/null; wait" EXIT
    until (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do
        kill -0 "$!" || { cat "$dir/$port.log" >&2; exit 1; }
        sleep 0.1
    done
}
