#!/usr/bin/env bash
# MEAN-PROGRAM: means of files of 64-bit numbers, whose ends lie on and off those of pieces.
set -euo pipefail
# shellcheck source=tests/examples/refusals.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/refusals.sh"
mean_program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python3 -c 'import array, sys; array.array("d", range(1, 300002)).tofile(sys.stdout.buffer)' >"$scratch/all"
checks=0
for count in 1 131072 262144 300001; do
  head -c $((8 * count)) "$scratch/all" >"$scratch/numbers"
  got=$("$mean_program" "$scratch/numbers")
  if ! awk "BEGIN { exit $got * 2 != $count + 1 }"; then
    printf 'FAILED: the mean of 1 to %s is %s\n' "$count" "$got"
    exit 1
  fi
  checks=$((checks + 1))
done

: >"$scratch/empty"
expect_refusals "$mean_program" "$scratch/missing" "a b" "$scratch" "$scratch/empty" ""
printf '%d checks passed\n' "$checks"
