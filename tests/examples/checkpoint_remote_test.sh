#!/usr/bin/env bash
# CHECKPOINT-PROGRAM URI MPIEXEC-COMMAND...: checkpoints on a storage that a URI names, by several ranks.
set -euo pipefail
checkpoint=$1
base=${2%%\?*}
settings=${2#"$base"}
mpiexec=("${@:3}") # up to the option that takes the number of ranks
file=$base/ferry-checkpoint-$$$settings

fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}

"${mpiexec[@]}" 5 "$checkpoint" write "$file" >/dev/null
for ranks in 1 3; do "${mpiexec[@]}" "$ranks" "$checkpoint" read "$file" >/dev/null; done
status=0
said=$("${mpiexec[@]}" 2 "$checkpoint" read "$base/missing$settings" 2>&1) || status=$?
[[ $status != 0 && $said == *"No such file or directory"* ]] || fail "a missing file: $status, $said"
printf '4 checkpoints of several ranks passed\n'
