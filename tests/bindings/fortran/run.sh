#!/usr/bin/env bash
# TRANSFERS-PROGRAM WRONG-INPUT-PROGRAM: runs both in a scratch folder, with the mock of PVFS2's
# library, for which pvfs2:/mock is the folder `served`.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/served"
printf 'mock:%s/served /mock pvfs2 defaults 0 0\n' "$scratch" >"$scratch/pvfs2tab"
export PVFS2TAB_FILE=$scratch/pvfs2tab

"$1" "$scratch"
"$2" "$scratch"

# Without the argument `errno`: a line that says what failed, before gfortran's backtrace, and a status.
rm "$scratch/file"
status=0
said=$("$2" "$scratch" stop 2>&1) || status=$?
if [[ $status == 0 || $said != "ERROR STOP ferry_open: $scratch/missing: No such file or directory"$'\n'* ]]; then
  printf 'FAILED: a failure without errno: %s, %s\n' "$status" "$said"
  exit 1
fi
