#!/bin/sh
# A file of an HTTP server to hosts with a mirror each: `watchfire mirror --proxy-host`.
#
#   implementation = "program"
#   build = { path = "peers/proxy/peer.sh" }
#   settings = { seed = 'sh "$LAB_PROGRAM" seed', fetch = 'sh "$LAB_PROGRAM" fetch', waits = "true" }
#
# It needs nginx, curl and target/release/watchfire. A node needs a link: then it has a network namespace of its own.
set -eu

not_set='the variable is not set; watchfire lab run starts this program with it'
: "${LAB_PROGRAM:?$not_set}" "${LAB_ADDRESS:?$not_set}" "${LAB_FOLDER:?$not_set}"
watchfire=${WATCHFIRE:-$(cd "$(dirname "$LAB_PROGRAM")/../../../target/release" && pwd)/watchfire}
# All nodes of a run have their folder in this one.
shared=$LAB_FOLDER/..
export PATH="$PATH:/usr/sbin:/sbin"
. "$(dirname "$LAB_PROGRAM")/../mirrors.sh"

# Ends all programs of the node. The last event has the bytes of bodies that the server sent.
stop() {
  [ -z "$children" ] || kill $children 2>/dev/null || true
  if [ -e access.log ]; then
    echo "{\"event\":\"stopped\",\"sent_bytes\":$(awk '{ sum += $1 } END { printf "%.0f", sum }' access.log)}"
  fi
  exit 0
}
children=
trap stop TERM

share() {
  file=${LAB_PATHS#'["'}
  file=${file%'"]'}
  mkdir -p www
  ln "$file" www/file.bin 2>/dev/null || cp "$file" www/file.bin
  cat > nginx.conf <<END
daemon off;
user root;
pid $PWD/nginx.pid;
error_log $PWD/error.log;
events {}
http {
  log_format bytes '\$body_bytes_sent';
  access_log $PWD/access.log bytes;
  client_body_temp_path $PWD/body; proxy_temp_path $PWD/proxy; fastcgi_temp_path $PWD/fastcgi; uwsgi_temp_path $PWD/uwsgi; scgi_temp_path $PWD/scgi;
  server { listen $LAB_ADDRESS:8000; root $PWD/www; }
}
END
  nginx -e "$PWD/error.log" -c "$PWD/nginx.conf" >&2 &
  children=$!
  wait_for curl --silent --fail --head "http://$LAB_ADDRESS:8000/file.bin"
  digest=$(sha256sum www/file.bin | cut -d ' ' -f 1)
  echo "$LAB_ADDRESS:8000 $digest $(stat -L -c %s www/file.bin)" > "$shared/proxy.server"
  echo "{\"event\":\"shared\",\"cid\":\"file.bin\",\"address\":\"$LAB_ADDRESS\"}"
}

fetch() {
  wait_for test -s "$shared/proxy.server"
  read -r server digest bytes < "$shared/proxy.server"
  start_mirror --proxy-host "files.example=http://$server"
  echo '{"event":"ready"}'
  read -r _
  url=http://127.0.0.1:5000/proxy/files.example/file.bin
  got=$(curl --silent --show-error --fail "$url" | sha256sum | cut -d ' ' -f 1)
  [ "$got" = "$digest" ] || { echo "the file differs from $digest" >&2; exit 1; }
  echo "{\"event\":\"progress\",\"bytes\":$bytes}"
  echo '{"event":"held"}'
}

case ${1-} in
  seed) : "${LAB_PATHS:?$not_set}"; share ;;
  fetch) fetch ;;
  *) echo "cannot run ${1-}: the command is seed or fetch" >&2; exit 2 ;;
esac
sleep infinity &
children="$children $!"
wait $!
