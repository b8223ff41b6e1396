#!/usr/bin/env bash
# LINES-PROGRAM: compares its counts with those of wc -l.
set -euo pipefail
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

# Bad input: one line, exit status 2.
for arguments in "$scratch/missing" "--placement 4 $scratch/text" "a b" "$scratch"; do
  status=0
  # shellcheck disable=SC2086  # several words on purpose
  output=$("$lines_program" $arguments 2>&1) || status=$?
  if [[ $status != 2 || $(wc -l <<<"$output") != 1 ]]; then
    printf 'FAILED: "%s" ended with %s: %s\n' "$arguments" "$status" "$output"
    exit 1
  fi
  checks=$((checks + 1))
done
printf '%d checks passed\n' "$checks"
