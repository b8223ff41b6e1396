#!/usr/bin/env bash
# GATHER-PROGRAM: compares the checksum of what it gathers with that of the same rows, taken by dd.
set -euo pipefail
gather_program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
checks=0

fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}

# 2000 rows of 4 KiB, each with its number; the cache below holds 64 of them.
awk 'BEGIN { for (row = 0; row < 2000; ++row) { for (i = 0; i < 512; ++i) printf "%07d\n", row * 512 + i } }' \
  >"$scratch/table"
awk 'BEGIN { srand(3); for (i = 0; i < 400; ++i) print int(rand() * 2000) }' >"$scratch/list"
while read -r row; do
  dd if="$scratch/table" bs=4096 skip="$row" count=1 status=none
done <"$scratch/list" >"$scratch/wanted"
want=$(sha256sum <"$scratch/wanted")
for groups in 1 3; do
  for cache in 262144 33554432; do
    "$gather_program" --groups "$groups" --cache-bytes "$cache" "$scratch/list" "$scratch/table" \
      "$scratch/output" >/dev/null
    got=$(sha256sum <"$scratch/output")
    [[ $got == "$want" ]] || fail "$groups groups, $cache bytes of cache: other contents"
    rm "$scratch/output"
    checks=$((checks + 1))
  done
done
: >"$scratch/nothing"
"$gather_program" "$scratch/nothing" "$scratch/table" "$scratch/output" >/dev/null
[[ -f $scratch/output && ! -s $scratch/output ]] || fail "an empty list"
rm "$scratch/output"

# STATUS TEXT ARGUMENTS...: one line with this text, and no output file.
refused() {
  local status=0 output
  output=$("$gather_program" "${@:3}" 2>&1) || status=$?
  [[ $status == "$1" && $output == *"$2"* && $(wc -l <<<"$output") == 1 ]] ||
    fail "${*:3}: ended with $status: $output"
  [[ ! -e $scratch/output ]] || fail "${*:3}: left an output"
  checks=$((checks + 1))
}
printf '1999\n2000\n' >"$scratch/beyond"
printf '1\nx\n' >"$scratch/wrong"
refused 2 usage: "$scratch/list" "$scratch/table"
refused 2 --cache-bytes --cache-bytes 100 "$scratch/list" "$scratch/table" "$scratch/output"
refused 1 "No such file" "$scratch/missing" "$scratch/table" "$scratch/output"
refused 1 "No such file" "$scratch/list" "$scratch/missing" "$scratch/output"
refused 1 "line 2" "$scratch/wrong" "$scratch/table" "$scratch/output"
refused 1 "not in" "$scratch/beyond" "$scratch/table" "$scratch/output"
# Existing files are left alone.
refused 1 "File exists" "$scratch/list" "$scratch/table" "$scratch/table"
[[ $(stat -c %s "$scratch/table") == 8192000 ]] || fail "the table has changed"
printf '%d checks passed\n' $((checks + 2))
