#!/usr/bin/env bash
# GREP-PROGRAM: compares its counts with those of grep -F -c.
set -euo pipefail
# shellcheck source=tests/examples/refusals.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/refusals.sh"
grep_program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Lines of all lengths, some longer than a piece and a read step, no newline at the end.
awk 'BEGIN {
  srand(7)
  for (i = 0; i < 60000; ++i) {
    line = ""
    words = int(rand() * 12)
    for (w = 0; w < words; ++w) line = line " " (rand() < 0.05 ? "needle" : "straw" int(rand() * 1000))
    print line
  }
  for (i = 0; i < 1500000; ++i) printf "x"
  printf "needle"
  for (i = 0; i < 1500000; ++i) printf "y"
  printf "\n\nlast needle"
}' >"$scratch/text"
: >"$scratch/empty"
printf '\n' >"$scratch/newline"
# A newline as the last byte of a piece, and one as the first of the next.
{ head -c 1048575 /dev/zero | tr '\0' a; printf '\nneedle\n'; } >"$scratch/edge"
{ head -c 1048576 /dev/zero | tr '\0' a; printf '\nneedle'; } >"$scratch/edge2"

checks=0
for file in text empty newline edge edge2; do
  for wanted in needle straw99 xneedley absent '' a; do
    for threads in 1 3; do
      want=$(grep -F -a -c -e "$wanted" "$scratch/$file" || true)
      got=$("$grep_program" --threads "$threads" "$wanted" "$scratch/$file" || true)
      if [[ $got != "$want" ]]; then
        printf 'FAILED: "%s" in %s with %s threads: %s lines instead of %s\n' \
          "$wanted" "$file" "$threads" "$got" "$want"
        exit 1
      fi
      checks=$((checks + 1))
    done
  done
done

expect_refusals "$grep_program" "needle $scratch/missing" "needle $scratch" "only-one" "--threads 0 a $scratch/text"
printf '%d checks passed\n' "$checks"
