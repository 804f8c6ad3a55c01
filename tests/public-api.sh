#!/usr/bin/env bash
# Writes crates/server/public-api.txt, the list of all public items of the crate `watchfire`, and shows what differs from
# the last commit. Installs cargo-public-api when it is missing; needs a nightly toolchain, whose rustdoc writes the items.
#
# `tests/public-api.sh --check` fails when something differs.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.52.0
tools=$PWD/target/tools
cargo=${CARGO:-cargo}
list=crates/server/public-api.txt

rustup toolchain list | grep -q '^nightly' ||
  { echo "cannot list the public API: there is no nightly toolchain; run: rustup toolchain install nightly --profile minimal" >&2; exit 1; }
[ "$("$tools/bin/cargo-public-api" --version 2>/dev/null)" = "cargo-public-api $version" ] ||
  CARGO_TARGET_DIR="$tools/build" $cargo install --quiet --locked --root "$tools" cargo-public-api --version "$version"
rm -rf "$tools/build"

# Derived and automatic traits would be half of the list. A target folder of its own keeps what the stable toolchain has built.
trap 'rm -f "$list.new"' EXIT
PATH=$tools/bin:$PATH CARGO_TARGET_DIR=${PUBLIC_API_TARGET_DIR:-target/public-api} $cargo public-api \
  --package watchfire --all-features -sss --color never > "$list.new"
[ -s "$list.new" ] || { echo "cannot list the public API: the list is empty" >&2; exit 1; }
mv "$list.new" "$list"
git --no-pager diff ${1:+--exit-code} -- "$list"
