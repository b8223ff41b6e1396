#!/usr/bin/env bash
# DIR STAGE...: runs stages of ./test one after the other at the lowest priority, as the leader of a
# session. Each leaves two files in DIR, named after it: what it printed, and then `.done`, its exit
# status, its seconds and its seconds of CPU time. SIGTERM ends them all.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" >/dev/null && pwd -P)
# shellcheck source=scripts/cpu_time.sh
source "$here/cpu_time.sh"
dir=$1
shift
trap 'trap - TERM; kill -- "-$$"' TERM

renice -n 19 -p $$ >/dev/null
# Where sessions share the CPUs evenly, a nice value counts within its session only.
{ printf 19 >/proc/self/autogroup; } 2>/dev/null || true

for stage in "$@"; do
  began=$SECONDS
  read_cpu_s
  before=$cpu_s
  status=0
  "$here/stage.sh" "$stage" >"$dir/$stage" 2>&1 &
  wait $! || status=$? # a trap waits for a program in front
  read_cpu_s
  printf '%d %d %d\n' "$status" $((SECONDS - began)) $((cpu_s - before)) >"$dir/$stage.part"
  mv "$dir/$stage.part" "$dir/$stage.done"
done
