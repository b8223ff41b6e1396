#!/usr/bin/env bash
# SEARCH-PROGRAM: compares its counts with those of grep -o, for strings that cannot overlap themselves,
# and with known ones for others.
set -euo pipefail
# shellcheck source=tests/examples/refusals.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/refusals.sh"
search_program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
checks=0

fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}

# STRING FILE PLACES: what it says, and how it ends.
check() {
  local groups got status
  for groups in 1 3; do
    status=0
    got=$("$search_program" --groups "$groups" "$1" "$2") || status=$?
    [[ $got == "$3" && $status == $(($3 == 0)) ]] ||
      fail "\"$1\" in $2 by $groups groups: $got instead of $3, ended with $status"
    checks=$((checks + 1))
  done
}

awk 'BEGIN {
  srand(7)
  for (i = 0; i < 60000; ++i) {
    line = ""
    words = int(rand() * 12)
    for (w = 0; w < words; ++w) line = line " " (rand() < 0.05 ? "needle" : "straw" int(rand() * 1000))
    print line
  }
  printf "last needle"
}' >"$scratch/text"
: >"$scratch/empty"
for wanted in needle straw99 ' straw1 ' absent w; do
  check "$wanted" "$scratch/text" "$(grep -F -a -o -e "$wanted" "$scratch/text" | wc -l)"
done
check needle "$scratch/empty" 0

# Across the border of two pieces (256 KiB), at every place; and at the end of the file.
for before in 262138 262139 262141 262143 262144; do
  { head -c "$before" /dev/zero | tr '\0' a; printf 'needle'; } >"$scratch/border"
  check needle "$scratch/border" 1
  check needles "$scratch/border" 0
done
# Places that overlap count each.
head -c 600000 /dev/zero | tr '\0' a >"$scratch/same"
check aaa "$scratch/same" 599998

expect_refusals "$search_program" "needle $scratch/missing" "needle $scratch" only-one "--groups 0 a $scratch/text" \
  "--groups x a $scratch/text" --groups
status=0
output=$("$search_program" '' "$scratch/text" 2>&1) || status=$?
[[ $status == 2 && $output == *"STRING has"* ]] || fail "no string: $status, $output"
printf '%d checks passed\n' $((checks + 1))
