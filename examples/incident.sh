#!/bin/sh
# The incident that provd exists for, on real files, in ten seconds: provd's own source is copied to a scratch
# directory, a daemon is run there, and everything is gone afterwards. Needs `provd` on the PATH. Every command is
# printed as it could be typed; the script fails where a verdict is not what the story says.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/provd-incident.XXXXXX")
export PROVD_STATE_DIR="$scratch/state"
unset PROVD_SOCKET 2>/dev/null || true
daemon=
trap '[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || :; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP PIPE
if command -v sha256sum >/dev/null 2>&1; then sum=sha256sum; else sum='shasum -a 256'; fi

if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold='' plain=''; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# run CODE COMMAND: shows a command and runs it; it must exit with CODE.
run() {
  printf '$ %s\n' "$2"
  code=0
  eval "$2" || code=$?
  [ "$code" -eq "$1" ] || { printf 'exit code %s instead of %s: not as the story goes\n' "$code" "$1" >&2; exit 1; }
}

# check CODE KEY...: the verdict on every one of the keys must be CODE (0 fresh, 1 dirty).
check() {
  expected=$1
  shift
  run "$expected" "provd check $*"
  for key; do
    code=0
    provd check -q "$key" || code=$?
    [ "$code" -eq "$expected" ] || { printf '%s: %s instead of %s\n' "$key" "$code" "$expected" >&2; exit 1; }
  done
}

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
run 0 "$sum settings.py >../read.sums"
run 0 'imports=$(grep -c -e "^import" -e "^from" settings.py)'
run 0 'provd put summary:settings --value "settings.py has $imports imports" --sums ../read.sums'
run 0 'clock=$(provd clock)'
run 0 'provd put plan --value "no new import is needed" --dep entry:summary:settings --fetched-at "$clock"'
check 0 summary:settings plan

say "Turns 41 to 380: an editor saves settings.py atomically. No TTL would notice."
run 0 "{ cat settings.py; echo 'import json'; } >.settings.tmp && mv .settings.tmp settings.py"

say "Turn 381: may the summary be trusted?"
check 1 summary:settings plan
run 1 'provd why plan'

say "The edit is undone: the content is what it was, whatever its times say."
run 0 "sed '\$d' settings.py >.settings.tmp && mv .settings.tmp settings.py"
check 0 summary:settings plan

say "Born stale: the agent notes what it reads, and somebody writes before it remembers."
run 0 "$sum settings.py >../read.sums"
run 0 "echo '# edited by somebody else' >>settings.py"
run 0 'provd put late:summary --value "of what was read" --sums ../read.sums'
check 1 late:summary
run 1 'provd why late:summary'
run 0 'provd why late:summary | grep -q "(changed)"'

say "The control: the same, and nobody writes."
run 0 "$sum settings.py >../read.sums"
run 0 'provd put control:summary --value "of what was read" --sums ../read.sums'
check 0 control:summary
