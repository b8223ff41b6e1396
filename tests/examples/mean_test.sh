#!/usr/bin/env bash
# MEAN-PROGRAM: means of files of 64-bit numbers, whose ends lie on and off those of pieces.
set -euo pipefail
# shellcheck source=tests/examples/refusals.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/refusals.sh"
mean_program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

checks=0
for count in 1 131072 262144 300001; do
  python3 -c 'import array, sys; array.array("d", range(1, int(sys.argv[1]) + 1)).tofile(sys.stdout.buffer)' \
    "$count" >"$scratch/numbers"
  got=$("$mean_program" "$scratch/numbers")
  want=$(python3 -c 'import sys; print((int(sys.argv[1]) + 1) / 2)' "$count")
  if ! python3 -c 'import sys; sys.exit(float(sys.argv[1]) != float(sys.argv[2]))' "$got" "$want"; then
    printf 'FAILED: the mean of 1 to %s is %s instead of %s\n' "$count" "$got" "$want"
    exit 1
  fi
  checks=$((checks + 1))
done

: >"$scratch/empty"
expect_refusals "$mean_program" "$scratch/missing" "a b" "$scratch" "$scratch/empty" ""
printf '%d checks passed\n' "$checks"
