#!/bin/sh
# Kraken as a peer of experiments: origin and tracker at the node that shares a file, an agent at each node that fetches it.
#
#   implementation = "program"
#   build = { path = "peers/kraken/peer.sh" }
#   settings = { seed = 'sh "$LAB_PROGRAM" seed', fetch = 'sh "$LAB_PROGRAM" fetch' }
#
# It needs root, redis-server, nginx, curl, and the programs that `make kraken-tools` builds. Kraken has fixed names for files in
# /tmp and ports on all addresses. So each node has a mount namespace with a /tmp of its own, and needs a link: then it has
# its own network namespace too.
set -eu

not_set='the variable is not set; watchfire lab run starts this program with it'
: "${LAB_PROGRAM:?$not_set}" "${LAB_ADDRESS:?$not_set}"
case ${1-} in
  seed) : "${LAB_PATHS:?$not_set}" ;;
  fetch) : "${LAB_NAMES:?$not_set}" "${LAB_PEERS:?$not_set}" ;;
  *) echo "cannot run ${1-}: the command is seed or fetch" >&2; exit 2 ;;
esac
programs=$(cd "$(dirname "$LAB_PROGRAM")/../../../target/kraken" 2>/dev/null && pwd) ||
  { echo "cannot find the programs of Kraken: run make kraken-tools" >&2; exit 2; }
export PATH="$PATH:/usr/sbin:/sbin"

if [ -z "${IN_NAMESPACE:-}" ]; then
  case ${LAB_PATHS-}${LAB_NAMES-} in
    *'","'*) echo "cannot use several objects: a node of Kraken has one file here" >&2; exit 2 ;;
  esac
  mkdir -p tmp/log
  if [ "$1" = seed ]; then
    # A JSON array of one text. The text may contain brackets and commas.
    file=${LAB_PATHS#'["'}
    file=${file%'"]'}
    [ -f "$file" ] || { echo "cannot share $file: it is not a file" >&2; exit 2; }
    ln "$file" tmp/object 2>/dev/null || cp "$file" tmp/object
  fi
  export IN_NAMESPACE=1
  exec unshare --mount --propagation private sh "$LAB_PROGRAM" "$1"
fi

# The programs may be below /tmp too.
mkdir -p tmp/programs
mount --bind "$programs" tmp/programs
mount --rbind tmp /tmp
programs=/tmp/programs
mount -t tmpfs tmpfs /var/log/nginx

settings='
zap: {level: info, encoding: console, outputPaths: [stdout], errorOutputPaths: [stdout]}
tls: {server: {disabled: true}, client: {disabled: true}}
peer_id_factory: addr_hash'

# Waits until a server answers.
wait_for() {
  for _ in $(seq 300); do
    curl --silent --output /dev/null "$1" && return
    sleep 0.1
  done
  echo "cannot reach $1 within 30 s" >&2
  exit 1
}

share() {
  digest=$(sha256sum tmp/object | cut -d ' ' -f 1)
  cat > origin.yaml <<END
$settings
metainfogen: {piece_lengths: {0: 4MB}}
scheduler: {torrentlog: {disable: true}}
localdb: {source: /tmp/origin.db}
castore: {upload_dir: /tmp/upload/, cache_dir: /tmp/cache/}
blobserver: {listener: {net: unix, addr: /tmp/origin.sock}}
nginx: {name: kraken-origin, cache_dir: /tmp/origin-nginx/, log_dir: /tmp/log}
backends: [{namespace: .*, backend: {testfs: {addr: "127.0.0.1:14000", root: blobs, name_path: identity}}}]
cluster: {static: ["$LAB_ADDRESS:15002"]}
hashring: {max_replica: 2}
END
  cat > tracker.yaml <<END
$settings
peerhandoutpolicy: {priority: completeness}
trackerserver: {listener: {net: unix, addr: /tmp/tracker.sock}, announce_interval: 3s}
peerstore: {redis: {addr: "127.0.0.1:14001"}}
origin: {hosts: {static: ["$LAB_ADDRESS:15002"]}}
nginx: {name: kraken-tracker, cache_dir: /tmp/tracker-nginx/, log_dir: /tmp/log}
END
  redis-server --port 14001 --bind 127.0.0.1 --save '' >&2 &
  "$programs/testfs" --port 14000 >&2 &
  "$programs/origin" --config origin.yaml --blobserver-hostname "$LAB_ADDRESS" --blobserver-port 15002 \
    --peer-ip "$LAB_ADDRESS" --peer-port 15001 >&2 &
  wait_for "http://$LAB_ADDRESS:15002/health"
  "$programs/tracker" --config tracker.yaml --port 15003 >&2 &
  wait_for "http://$LAB_ADDRESS:15003/health"
  url=http://$LAB_ADDRESS:15002/namespace/lab/blobs/sha256:$digest/uploads
  upload=$(curl --silent --fail --request POST --dump-header - --output /dev/null "$url" | tr -d '\r' | sed -n 's/^Location: //p')
  size=$(stat -c %s tmp/object)
  curl --silent --fail --request PATCH --header "Content-Range: 0-$size" --upload-file tmp/object "$url/$upload"
  curl --silent --fail --request PUT "$url/$upload"
  echo "{\"event\":\"shared\",\"cid\":\"$digest\",\"address\":\"$LAB_ADDRESS\"}"
}

fetch() {
  digest=$(printf %s "$LAB_NAMES" | tr -d '[]"')
  origin=$(printf %s "$LAB_PEERS" | tr -d '[]"' | cut -d , -f 1)
  cat > agent.yaml <<END
$settings
scheduler: {torrentlog: {disable: true}, dispatch: {piece_request_policy: rarest_first}}
store: {download_dir: /tmp/download/, cache_dir: /tmp/cache/}
registry: {docker: {version: 0.1, log: {level: error}, http: {net: unix, addr: /tmp/registry.sock}}}
allowed_cidrs: [127.0.0.1]
nginx: {name: kraken-agent, cache_dir: /tmp/agent-nginx/, log_dir: /tmp/log}
tracker: {hosts: {static: ["$origin:15003"]}}
build_index: {hosts: {static: ["$origin:15004"]}}
END
  "$programs/agent" --config agent.yaml --peer-ip "$LAB_ADDRESS" --peer-port 16001 --agent-server-port 16002 \
    --agent-registry-port 16000 >&2 &
  wait_for http://127.0.0.1:16002/
  # The agent answers with the whole file, once it has it.
  curl --silent --show-error --fail --output copy "http://127.0.0.1:16002/namespace/lab/blobs/sha256:$digest" >&2
  [ "$(sha256sum copy | cut -d ' ' -f 1)" = "$digest" ] || { echo "the copy differs from $digest" >&2; exit 1; }
  echo "{\"event\":\"progress\",\"bytes\":$(stat -c %s copy)}"
  echo '{"event":"held"}'
}

if [ "$1" = seed ]; then share; else fetch; fi
exec sleep infinity
