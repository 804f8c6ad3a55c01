# Functions for peers whose hosts have a mirror each. A peer sets `shared`, a folder of all nodes of a run, and `watchfire`, the program.

# Waits until a command succeeds.
wait_for() {
  for _ in $(seq 1200); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.05
  done
  echo "no success within 60 s: $*" >&2
  exit 1
}

known_hosts() { curl --silent http://127.0.0.1:5000/status | sed -n 's/.*"known_hosts": *\([0-9]*\).*/\1/p'; }

# Waits until this host has learned of no further one for two seconds: hosts that do not know each other yet would be several fleets.
wait_for_fleet() {
  same=0
  known=$(known_hosts)
  for _ in $(seq 240); do
    sleep 0.25
    before=$known
    known=$(known_hosts)
    [ "$known" = "$before" ] && same=$((same + 1)) || same=0
    [ $same -lt 8 ] || return 0
  done
  echo "the fleet still grows after 60 s" >&2
  exit 1
}

# Starts the mirror of this host with these options, as `children`, and waits until it knows the others. The first host makes the key
# of the fleet.
start_mirror() {
  join=
  if mkdir "$shared/fleet.first" 2>/dev/null; then
    "$watchfire" mirror key > "$shared/fleet.key"
    echo "$LAB_ADDRESS:5001" > "$shared/fleet.join"
  else
    wait_for test -s "$shared/fleet.join"
    join="--join $(cat "$shared/fleet.join")"
  fi
  # shellcheck disable=SC2086
  "$watchfire" mirror "$@" --listen 127.0.0.1:5000 --store store --peer-listen "$LAB_ADDRESS:5001" --fleet-key "$shared/fleet.key" $join >&2 &
  children=$!
  wait_for curl --silent --fail http://127.0.0.1:5000/healthz
  wait_for_fleet
}
