#!/bin/sh
# Builds the two programs of the soak in target/soak: `watchfire`, and `watchfire-next` with another build of the web client.
set -eu
cd "$(dirname "$0")/../../.."
profile=${SOAK_PROFILE:-release}
case $profile in dev) folder=debug ;; *) folder=$profile ;; esac
mkdir -p target/soak

build() {
  # With debug assertions, the program would read the web client from the disk.
  off() { printf -- '--config profile.dev.package.%s.debug-assertions=false ' "$@"; }
  ${CARGO:-cargo} build ${LOCKED:-} --profile "$profile" $(off watchfire-pages rust-embed rust-embed-utils) \
    --no-default-features --package watchfire-cli
  cp "${CARGO_TARGET_DIR:-target}/$folder/watchfire" "target/soak/$1"
}

client() {
  (cd web && npm exec -- vite build --logLevel error "$@")
}

trap client EXIT
# Without minification, all scripts differ and have other names.
client --minify false
build watchfire-next
trap - EXIT
client
build watchfire
