#!/usr/bin/env bash
# Locks the versions of python/requirements*.in in python/requirements*.txt, with uv. Keeps versions
# that still fit; `scripts/lock.sh --upgrade` takes the newest, `--upgrade-package NAME` one.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../python"

uv=../.ferry/uv/bin/uv
if [[ ! -x $uv ]]; then
  python3 -m venv ../.ferry/uv
  ../.ferry/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
fi

# NAME [OPTION...]: for the oldest supported Python; newer ones work with the same versions.
lock() {
  "$uv" pip compile --quiet --python-version 3.11 --python-platform linux \
    --custom-compile-command scripts/lock.sh -o "$1.txt" "$1.in" "${@:2}"
}

lock requirements "$@"
lock requirements-test -c requirements.txt "$@" # the same versions in both
lock requirements-coverage -c requirements-test.txt "$@" # one environment for both
lock requirements-cuda "$@"
lock requirements-wheels -c requirements.txt "$@"
lock requirements-wheels-mpi -c requirements-test.txt "$@"
lock ../docs/site/requirements -c requirements.txt "$@"
