#!/usr/bin/env bash
# Measures each experiment whose page is not of this commit, one after the other, and writes the page.
#
#   experiments/figures.sh [--left | --pages]
#
# --left only prints the pages that are left, with the minutes that each took the last time, and --pages prints all pages. Ended
# at any time, the script begins again with the first page that is left. A commit that changes only documents and tests keeps all
# pages: tests do not decide about a figure. The one exception is the page of a tab, whose program is in tests/interop/tab.
# No experiment begins while other programs use more than 5 percent of the machine.
set -uo pipefail
cd "$(dirname "$0")/.."

# Each page, and the arguments of make that write it.
pages() {
  each() { local target=$1 folder=$2 name; shift 2; for name; do echo "docs/$folder/$name.md $target EXPERIMENTS=$name"; done; }
  each bench-images fleet slow-upstream lazy equal-links neighbour sizes unshaped small-layers kraken proxy-file
  each bench-swarm swarm pair crowd uplinks webtorrent
  each scale scale million polls rooms one-room storm small-machine observed streams
  each sim-pictures simulation swarms netflix-32 equal-1000 fleets large-fleets
  echo docs/simulation/calibration.md bench-calibration
  echo docs/bench/targets.md bench
  echo docs/bench/lateness.md bench-lateness
  for name in two-million road polls sprites; do echo "docs/seeds/$name.md bench-$name"; done
  echo docs/seeds/spread-32.md bench-spread
  echo docs/scale/front-page-content.md bench-front-page
  for name in cluster histories recovery neighbours; do echo "docs/scale/$name.md bench-$name"; done
  echo docs/browser/crowd.md bench-browser
  for name in networks tab churn paths dial; do echo "docs/browser/$name.md bench-$name"; done
}

is_left() {
  local commit
  commit=$(grep -oEm1 'commit (\| )?[0-9a-f]{8}( \||[,.])' "$1" | grep -oE '[0-9a-f]{8}')
  [ -z "$commit" ] || ! git diff --quiet "$commit" -- . ':!docs' ':!*.md' ':!tests' ':!crates/*/tests/*' ||
    { [ "$1" = docs/browser/tab.md ] && ! git diff --quiet "$commit" -- tests/interop/tab; }
}

minutes() {
  local seconds
  seconds=$(sed -nE 's/^\| all runs together \| ([0-9,]+) s \|$/\1/p' "$1" 2>/dev/null | tr -d ,)
  [ -z "$seconds" ] && echo '?' || echo $(((seconds + 59) / 60))
}

list() {
  local page arguments
  echo 'minutes  page'
  while read -r page arguments; do printf '%7s  %s\n' "$(minutes "$page")" "$page"; done <<<"$left"
}

# Prints the percent of the machine that programs use in three seconds.
used() {
  { head -1 /proc/stat; sleep 3; head -1 /proc/stat; } | awk '
    { all = 0; for (i = 2; i <= 9; i++) all += $i; idle = $5 + $6 }
    NR == 1 { all_before = all; idle_before = idle }
    END { printf "%d", 100 - 100 * (idle - idle_before) / (all - all_before) }'
}

[ "${1:-}" != --pages ] || { pages | cut -d' ' -f1; exit; }
left=$(pages | while read -r page arguments; do ! is_left "$page" 2>/dev/null || echo "$page $arguments"; done)
[ -n "$left" ] || { echo "each page is of this commit"; exit; }
[ "${1:-}" != --left ] || { list; exit; }
failed=()
while [ -n "$left" ]; do
  list
  read -r page arguments <<<"$left"
  # The experiment before may still write to the disk.
  for attempt in {1..10}; do
    used=$(used)
    [ "$used" -gt 5 ] || break
  done
  [ "$used" -le 5 ] || { echo "other programs use $used % of the machine: end them, then begin again" >&2; exit 1; }
  # shellcheck disable=SC2086
  ${MAKE:-make} --no-print-directory $arguments </dev/null || failed+=("$page")
  left=$(tail -n +2 <<<"$left")
done
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
