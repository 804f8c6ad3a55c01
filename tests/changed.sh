#!/usr/bin/env bash
# Tests the crates, the client and the web modules that differ from main, committed or not.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main)
changed=$( (git diff --name-only "$base"; git ls-files --others --exclude-standard) | sort -u)

packages=()
for folder in $(grep -oE '^(crates/[^/]+|examples/[^/]+|bench|fuzz)/' <<<"$changed" | sort -u); do
  [ -f "$folder/Cargo.toml" ] || continue
  packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -1)")
done
if [ ${#packages[@]} -gt 0 ]; then ${CARGO:-cargo} test --quiet "${packages[@]}"; fi

if grep -q '^clients/javascript/' <<<"$changed"; then make --no-print-directory client-test; fi

if grep -q '^web/' <<<"$changed"; then
  (cd web && npm run --silent typecheck && npx vitest run --changed "$base")
fi
