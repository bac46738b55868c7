#!/bin/sh
# The incident that provd exists for, on real files, in ten seconds: provd's own source is copied to a scratch
# directory, a daemon is run there, and everything is gone afterwards. Needs `provd` on the PATH.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/provd-incident.XXXXXX")
export PROVD_STATE_DIR="$scratch/state"
unset PROVD_SOCKET 2>/dev/null || true
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; rm -rf "$scratch"' EXIT INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@" || true; }

cp -R "$here/provd" "$scratch/work"
cd "$scratch/work"
provd run --root "$scratch/work" 2>"$scratch/log" &
daemon=$!
tries=0
until provd clock >/dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 100 ] || { cat "$scratch/log"; exit 1; }
  sleep 0.1
done

say "Turn 40: the agent reads settings.py and remembers what it imports."
imports=$(grep -c '^import\|^from' settings.py)
run provd put summary:settings --value "settings.py has $imports imports" --dep settings.py --as-of-now
clock=$(provd clock)
run provd put plan --value "no new import is needed" --dep entry:summary:settings --fetched-at "$clock"
run provd check summary:settings plan

say "Turns 41 to 380: an editor saves settings.py atomically. No TTL would notice."
{ cat settings.py; echo 'import json'; } >.settings.tmp && mv .settings.tmp settings.py

say "Turn 381: may the summary be trusted?"
run provd check summary:settings plan
run provd why plan

say "The edit is undone: the content is what it was, whatever its times say."
sed '$d' settings.py >.settings.tmp && mv .settings.tmp settings.py
run provd check summary:settings plan

say "Born stale: the agent takes a clock, reads, and somebody writes before it remembers."
clock=$(provd clock)
cat settings.py >/dev/null; echo '# edited by somebody else' >>settings.py
run provd put late:summary --value "of what was read" --dep settings.py --fetched-at "$clock"
run provd check late:summary
