#!/bin/sh
# Makes start-page.png, the picture of the README, beside itself: start-page.sh PENATES
# It needs chromium and pngquant.
set -eu
picture=$(dirname "$(readlink -f "$0")")/start-page.png penates=$(readlink -f "$1")
folder=$(mktemp -d)
cd "$folder"
"$penates" demo --listen 127.0.0.1:0 --records-listen off > said 2> log &
demo=$!
trap 'kill "$demo"; wait "$demo" || :; rm -rf "$folder"' EXIT
until grep -q http said; do
    kill -0 "$demo"
    sleep 0.1
done
page=$(sed -n 's/.*\(http:[^ ]*\).*/\1/p' said | head -n 1)
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=900,700 \
    "--screenshot=$folder/page.png" "$page"
pngquant --force --output "$picture" 32 page.png
