#!/usr/bin/env bash
# LINES-PROGRAM: compares its counts with those of wc -l.
set -euo pipefail
# shellcheck source=tests/examples/refusals.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/refusals.sh"
lines_program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

seq 1 700000 >"$scratch/text" # several pieces, and a part of one
: >"$scratch/empty"
printf 'no newline' >"$scratch/none"
{ head -c 1048575 /dev/zero | tr '\0' a; printf '\n\nb'; } >"$scratch/edge" # on both sides of a piece's end

checks=0
for file in text empty none edge; do
  for placement in 0 1 2 3; do
    want=$(wc -l <"$scratch/$file")
    got=$("$lines_program" --placement "$placement" "$scratch/$file")
    if [[ $got != "$want" ]]; then
      printf 'FAILED: %s with placement %s: %s lines instead of %s\n' "$file" "$placement" "$got" "$want"
      exit 1
    fi
    checks=$((checks + 1))
  done
done

expect_refusals "$lines_program" "$scratch/missing" "--placement 4 $scratch/text" \
  "--placement x $scratch/text" "--placement 4294967296 $scratch/text" "--placement -1 $scratch/text" "a b" "$scratch"
printf '%d checks passed\n' "$checks"
