#!/bin/sh
# Containers that start before their image has arrived: a registry with an image of eStargz at the node that shares a file, of which the
# image is made; and at each other node a mirror, containerd 2 and the stargz snapshotter.
#
#   implementation = "program"
#   build = { path = "peers/lazy/peer.sh" }
#   settings = { seed = 'sh "$LAB_PROGRAM" seed', fetch = 'sh "$LAB_PROGRAM" fetch stargz', waits = "true" }
#
# The first byte of a node is the first answer of its container, and a node has the image when its mirror has all of it. `fetch
# overlayfs` pulls the whole image before the container starts. It needs root, docker-registry, curl, and the programs that `make lazy-tools` links to target/lazy. A node needs a link: then it has a
# network namespace of its own.
set -eu

not_set='the variable is not set; watchfire lab run starts this program with it'
: "${LAB_PROGRAM:?$not_set}" "${LAB_ADDRESS:?$not_set}" "${LAB_FOLDER:?$not_set}"
target=$(cd "$(dirname "$LAB_PROGRAM")/../../../target" && pwd)
programs=$target/lazy
[ -x "$programs/stargz" ] || { echo "cannot find $programs/stargz: run make lazy-tools" >&2; exit 2; }
# All nodes of a run have their folder in this one.
shared=$LAB_FOLDER/..
port=5000
watchfire=${WATCHFIRE:-$target/release/watchfire}
. "$(dirname "$LAB_PROGRAM")/../mirrors.sh"

# The programs of a node end with it, also the shim of a container. The first process of the namespace gets the SIGTERM.
if [ -z "${IN_NAMESPACE:-}" ]; then
  export IN_NAMESPACE=1
  exec 3<&0
  unshare --mount --pid --fork --kill-child --mount-proc sh "$LAB_PROGRAM" "$@" <&3 &
  child=$!
  trap 'pkill -TERM -P $child' TERM
  status=0
  wait $child || status=$?
  # A signal has ended that wait only.
  [ $status -lt 128 ] || { status=0; wait $child || status=$?; }
  exit $status
fi

digest_of() { printf 'sha256:%s' "$(sha256sum "$1" | cut -d ' ' -f 1)"; }

# Uploads a blob, and writes its descriptor. The last argument is more members of the descriptor.
upload() {
  location=$(curl --silent --fail --request POST --dump-header - --output /dev/null "$registry/blobs/uploads/" | tr -d '\r' | sed -n 's/^Location: //pI')
  curl --silent --fail --request PUT --header 'content-type: application/octet-stream' --upload-file "$1" "$location&digest=$(digest_of "$1")" >&2
  printf '{"mediaType":"%s","digest":"%s","size":%s%s}' "$2" "$(digest_of "$1")" "$(stat -c %s "$1")" "$3"
}

share() {
  file=${LAB_PATHS#'["'}
  file=${file%'"]'}
  mkdir -p root/start root/rest
  cp "$programs/application" root/application
  split --bytes 1M --numeric-suffixes=0 --suffix-length 4 "$file" root/rest/
  # In the order of the file. The start reads each twentieth part, so these are far from each other.
  printf '%s\n' application start rest > names
  number=0
  for part in root/rest/*; do
    name=rest/${part##*/}
    if [ $((number % 20)) = 0 ]; then
      mv "$part" root/start/
      name=start/${part##*/}
    fi
    echo "$name" >> names
    number=$((number + 1))
  done
  tar --create --file layer.tar --directory root --no-recursion --owner=0 --group=0 --mtime=@0 --files-from names
  "$programs/stargz" convert layer.tar layer.esgz > digests
  read -r toc diff < digests
  rm -rf root layer.tar
  printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s/content}}\nhttp: {addr: "%s:%s"}\n' "$PWD" "$LAB_ADDRESS" $port > registry.yml
  docker-registry serve registry.yml > registry.log 2>&1 &
  wait_for curl --silent --fail "http://$LAB_ADDRESS:$port/v2/"
  registry=http://$LAB_ADDRESS:$port/v2/lab/app
  printf '{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["%s"]}}' "$diff" > config.json
  oci=application/vnd.oci.image
  config=$(upload config.json $oci.config.v1+json '')
  layer=$(upload layer.esgz $oci.layer.v1.tar+gzip ",\"annotations\":{\"containerd.io/snapshot/stargz/toc.digest\":\"$toc\"}")
  printf '{"schemaVersion":2,"mediaType":"%s","config":%s,"layers":[%s]}' $oci.manifest.v1+json "$config" "$layer" > manifest.json
  curl --silent --fail --request PUT --header "content-type: $oci.manifest.v1+json" --data-binary @manifest.json "$registry/manifests/v1" >&2
  : > registry.log
  echo "$LAB_ADDRESS:$port $(digest_of layer.esgz)" > "$shared/lazy.registry"
  trap 'stopped; exit 0' TERM
  echo "{\"event\":\"shared\",\"cid\":\"$(digest_of manifest.json)\",\"address\":\"$LAB_ADDRESS\"}"
}

# The bytes that the registry sent.
stopped() {
  sent=$(sed -n 's/.*http.response.written=\([0-9]*\).*/\1/p' registry.log | awk '{ sum += $1 } END { printf "%.0f", sum }')
  echo "{\"event\":\"stopped\",\"sent_bytes\":$sent}"
}

fetch() {
  snapshotter=$1
  # The state of runc and of shims, which is of all hosts otherwise.
  mkdir -p /run/containerd
  mount -t tmpfs tmpfs /run/containerd
  wait_for test -s "$shared/lazy.registry"
  read -r upstream digest < "$shared/lazy.registry"
  start_mirror --upstream "lab.example=http://$upstream"
  mkdir -p hosts/lab.example
  printf 'server = "http://%s"\n[host."http://127.0.0.1:%s"]\ncapabilities = ["pull", "resolve"]\n' "$upstream" $port > hosts/lab.example/hosts.toml
  printf 'no_prometheus = true\nno_background_fetch = true\n[[resolver.host."lab.example".mirrors]]\nhost = "127.0.0.1:%s"\ninsecure = true\n' $port > stargz.toml
  "$programs/stargz" serve "$PWD/stargz.sock" "$PWD/stargz" stargz.toml >&2 &
  wait_for test -S stargz.sock
  cat > containerd.toml <<END
version = 2
root = "$PWD/root"
state = "$PWD/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "$PWD/containerd.sock"
[ttrpc]
address = "$PWD/ttrpc.sock"
[proxy_plugins.stargz]
type = "snapshot"
address = "$PWD/stargz.sock"
[proxy_plugins.stargz.exports]
root = "$PWD/stargz"
enable_remote_snapshot_annotations = "true"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux"
snapshotter = "overlayfs"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux"
snapshotter = "stargz"
END
  "$programs/containerd2" --config containerd.toml >&2 &
  export CONTAINERD_ADDRESS="$PWD/containerd.sock"
  ctr=$programs/ctr2
  wait_for "$ctr" version
  echo '{"event":"ready"}'
  read -r _
  began=$(date +%s%N)
  "$ctr" images pull --hosts-dir "$PWD/hosts" --snapshotter "$snapshotter" lab.example/lab/app:v1 >&2
  "$ctr" run --detach --net-host --cgroup '' --runtime "$programs/containerd-shim-runc-v2" --snapshotter "$snapshotter" lab.example/lab/app:v1 app /application 8080 /start >&2
  wait_for curl --silent --fail http://127.0.0.1:8080/
  answer=$(awk "BEGIN { print ($(date +%s%N) - $began) / 1e9 }")
  trap 'echo "{\"event\":\"stopped\",\"peaks\":{\"first answer of the last host, s\":$answer}}"; exit 0' TERM
  echo '{"event":"progress","bytes":1}'
  # The rest follows, so that the host has the whole image.
  hex=${digest#sha256:}
  until [ -e "store/blobs/sha256/$(printf %.2s "$hex")/$hex" ]; do sleep 0.1; done
  echo '{"event":"held"}'
}

case ${1-} in
  seed) : "${LAB_PATHS:?$not_set}"; share ;;
  fetch) fetch "${2:?the snapshotter is stargz or overlayfs}" ;;
  *) echo "cannot run ${1-}: the command is seed or fetch" >&2; exit 2 ;;
esac
# A signal ends the wait, and runs the trap.
sleep infinity &
wait $!
