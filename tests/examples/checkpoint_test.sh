#!/usr/bin/env bash
# CHECKPOINT-PROGRAM MPIEXEC-COMMAND...: different numbers of ranks write and read a checkpoint; the
# file is always the same.
set -euo pipefail
checkpoint=$1
mpiexec=("${@:2}") # up to the option that takes the number of ranks
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}

for ranks in 1 6; do "${mpiexec[@]}" "$ranks" "$checkpoint" write "$scratch/$ranks" >/dev/null; done
cmp "$scratch/1" "$scratch/6" || fail "the file depends on who writes it"
for ranks in 1 4; do "${mpiexec[@]}" "$ranks" "$checkpoint" read "$scratch/6" >/dev/null; done

# A file that is wrong, or not there: an error, not a hang.
printf 'wrong' | dd of="$scratch/6" bs=1 seek=1000 conv=notrunc status=none
if "${mpiexec[@]}" 4 "$checkpoint" read "$scratch/6" >/dev/null 2>&1; then fail "a changed file is read"; fi
truncate -s 1000 "$scratch/1"
if "${mpiexec[@]}" 4 "$checkpoint" read "$scratch/1" >/dev/null 2>&1; then fail "a cut file is read"; fi
status=0
said=$("${mpiexec[@]}" 2 "$checkpoint" read "$scratch/missing" 2>&1) || status=$?
[[ $status != 0 && $said == *"No such file or directory"* ]] || fail "a missing file: $status, $said"
printf '7 checks passed\n'
