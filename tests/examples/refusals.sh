#!/usr/bin/env bash
# PROGRAM ARGUMENTS...: each of these, split into words, is bad input: one line, exit status 2. Adds to
# `checks`.
expect_refusals() {
  local program=$1 arguments output status
  shift
  for arguments in "$@"; do
    status=0
    # shellcheck disable=SC2086  # several words on purpose
    output=$("$program" $arguments 2>&1) || status=$?
    if [[ $status != 2 || -z $output || $(wc -l <<<"$output") != 1 ]]; then
      printf 'FAILED: "%s" ended with %s: %s\n' "$arguments" "$status" "$output"
      exit 1
    fi
    checks=$((checks + 1))
  done
}
