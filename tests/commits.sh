#!/usr/bin/env bash
# Checks the subjects of new commits: `crate: imperative`, at most 72 columns, with an empty line below.
#
#   tests/commits.sh [BASE]     the commits since BASE; otherwise since origin/main
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(git rev-parse --quiet --verify origin/main || true)}
[ -n "$base" ] || { echo "no origin/main: commit subjects are not checked"; exit 0; }

failed=
while read -r commit; do
  subject=$(git log -1 --format=%B "$commit" | sed -n 1p)
  second=$(git log -1 --format=%B "$commit" | sed -n 2p)
  fault=
  [ "${#subject}" -le 72 ] || fault="the subject has ${#subject} columns, and at most 72 are allowed"
  [[ $subject =~ ^[^:]+:\ [^\ ] ]] || fault="the subject does not begin with the part that changes, such as \"hub: \""
  [ -z "$second" ] || fault="the line below the subject is not empty"
  [ -z "$fault" ] || { echo "$(git rev-parse --short "$commit"): $fault: $subject" >&2; failed=1; }
done < <(git rev-list --no-merges "$base..HEAD")
[ -z "$failed" ] || { echo "git rebase -i $base lets you reword commits" >&2; exit 1; }
