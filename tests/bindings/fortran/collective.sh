#!/usr/bin/env bash
# PROGRAM RANKS MPIEXEC-COMMAND...: runs it on so many ranks in a scratch folder.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
timeout 60 "${@:3}" "$2" "$1" "$scratch"
