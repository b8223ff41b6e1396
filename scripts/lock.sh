#!/usr/bin/env bash
# Makes the exact versions in python/requirements*.txt from python/requirements*.in, with uv. Versions
# that still fit stay; `scripts/lock.sh --upgrade` takes the newest ones, `--upgrade-package NAME` one.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../python"

uv=../.ferry/uv/bin/uv
if [[ ! -x $uv ]]; then
  python3 -m venv ../.ferry/uv
  ../.ferry/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
fi

# NAME [OPTION...]: for the oldest Python that Ferry runs on; newer ones take the same.
lock() {
  "$uv" pip compile --quiet --python-version 3.11 --python-platform linux \
    --custom-compile-command scripts/lock.sh -o "$1.txt" "$1.in" "${@:2}"
}

lock requirements "$@"
lock requirements-test -c requirements.txt "$@" # the same versions in both
lock requirements-cuda "$@"
lock ../docs/site/requirements -c requirements.txt "$@"
