#!/usr/bin/env bash
# Runs make targets one after another, and stops at the first that fails, unless it shall keep going. Then prints the minutes
# and CPU minutes of each.
#
#   tests/targets.sh [--keep-going] TARGET...
#
# On a machine that others use too, the CPU minutes of a target say more than its minutes.
set -uo pipefail
cd "$(dirname "$0")/.."
times=$(mktemp)
trap 'rm -f "$times"' EXIT

# Writes the milliseconds since some moment, and of CPU time of all commands so far. `times` counts for this shell only, so it
# must not run in a subshell. Its second line is like "1m2.345s 0m6.789s".
measure() {
  times >"$times"
  wall_ms=$(date +%s%3N)
  cpu_ms=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); ms += (part[1] * 60 + part[2]) * 1000 } printf "%d", ms }' "$times")
}

table='minutes    CPU  target'
row() { table+=$(awk -v wall="$1" -v cpu="$2" -v target="$3" 'BEGIN { printf "\n%7.1f %6.1f  %s", wall / 60000, cpu / 60000, target }'); }

keep_going=
[ "${1:-}" != --keep-going ] || { keep_going=yes; shift; }
failed=()
measure
began=$wall_ms
for target in "$@"; do
  [ ${#failed[@]} = 0 ] || [ -n "$keep_going" ] || { table+=$'\n'"      -      -  $target: did not run"; continue; }
  target_began=$wall_ms cpu_began=$cpu_ms result=
  ${MAKE:-make} --no-print-directory "$target" || { failed+=("$target"); result=': FAILED'; }
  measure
  row $((wall_ms - target_began)) $((cpu_ms - cpu_began)) "$target$result"
done
row $((wall_ms - began)) "$cpu_ms" "all"

printf '\n%s\n' "$table"
for target in "${failed[@]}"; do echo "failed: \`make $target\` runs it alone" >&2; done
[ ${#failed[@]} = 0 ] || exit 1
echo "all tests passed"
