#!/usr/bin/env bash
# Checks that the public items of the crate `watchfire` name no type of another crate, except those that
# crates/server/external-types.toml allows. Installs cargo-check-external-types, and the nightly toolchain that it reads.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.5.0
toolchain=nightly-2026-03-20
tools=$PWD/target/tools
cargo=${CARGO:-cargo}

rustup toolchain list | grep -q "^$toolchain" || rustup toolchain install "$toolchain" --profile minimal
[ -x "$tools/external-types/bin/cargo-check-external-types" ] ||
  CARGO_TARGET_DIR="$tools/build" $cargo install --quiet --locked --root "$tools/external-types" cargo-check-external-types --version "$version"
rm -rf "$tools/build"

cd crates/server
PATH=$tools/external-types/bin:$PATH CARGO_TARGET_DIR=${PUBLIC_API_TARGET_DIR:-../../target/public-api} \
  $cargo "+$toolchain" check-external-types --all-features --config external-types.toml
