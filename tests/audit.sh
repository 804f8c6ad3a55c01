#!/usr/bin/env bash
# Checks the dependencies: licences, sources, second versions and known vulnerabilities. Installs cargo-deny when it is missing.
#
# `tests/audit.sh rules` checks only the rules of deny.toml, which needs no network. A check that is not possible is named
# in a line that starts with "skipped:".
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
tools=$PWD/target/tools
cargo=${CARGO:-cargo}
deny=$tools/bin/cargo-deny

# Without optimisation the tool compiles in 85 CPU-seconds, and it checks the rules in two.
[ "$("$deny" --version 2>/dev/null)" = "cargo-deny $version" ] ||
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$tools/build" \
    $cargo install --quiet --locked --debug --root "$tools" cargo-deny --version "$version"
rm -rf "$tools/build"

"$deny" --log-level error --locked check licenses bans sources
[ "${1:-}" != rules ] || exit 0

advisories=https://github.com/RustSec/advisory-db
if GIT_TERMINAL_PROMPT=0 timeout 30 git ls-remote --quiet "$advisories" HEAD >/dev/null 2>&1; then
  "$deny" --log-level warn --locked check advisories
else
  echo "skipped: known vulnerabilities of crates: cannot reach $advisories"
fi

failed=
for folder in . web clients/javascript tests/interop tests/docs experiments/peers; do
  # npm exits with 1 for vulnerabilities and for errors; only a report has this field.
  report=$(cd "$folder" && timeout 60 npm audit --json 2>/dev/null) || true
  case $report in
    *'"auditReportVersion"'*) (cd "$folder" && npm audit) || failed="$failed $folder" ;;
    *) echo "skipped: known vulnerabilities of npm packages in $folder: cannot reach the registry's list" ;;
  esac
done
[ -z "$failed" ] || { echo "npm packages with known vulnerabilities:$failed" >&2; exit 1; }
