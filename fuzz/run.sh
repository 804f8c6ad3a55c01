#!/usr/bin/env bash
# Fuzzes the named targets, or all of them, for FUZZ_SECONDS (60) each. New inputs that reach more code
# go to fuzz/corpus, failing inputs to fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
# The coverage counters that libFuzzer reads. A stable compiler accepts these flags; with --target they
# do not apply to build scripts.
export RUSTFLAGS="-Cpasses=sancov-module -Ccodegen-units=1 \
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
"${CARGO:-cargo}" build --release --locked -p watchfire-fuzz --features guided --target "$host" --target-dir target/fuzz
fuzz=target/fuzz/$host/release/fuzz

failed=0
for target in ${*:-$(ls fuzz/seeds)}; do
  mkdir -p "fuzz/corpus/$target" fuzz/artifacts
  log=fuzz/artifacts/$target.log
  if FUZZ_TARGET=$target $fuzz -max_total_time="${FUZZ_SECONDS:-60}" -max_len=16384 -timeout=10 \
    -artifact_prefix="fuzz/artifacts/$target-" "fuzz/corpus/$target" "fuzz/seeds/$target" 2> "$log"; then
    echo "$target: $(grep -c 'NEW' "$log" || true) new inputs; $(tail -1 "$log")"
  else
    failed=1
    tail -40 "$log"
    echo "FAILED: $target. Run an input again: FUZZ_TARGET=$target $fuzz fuzz/artifacts/$target-..."
  fi
done
exit $failed
