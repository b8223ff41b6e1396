#!/usr/bin/env bash
# FOLDER: writes the source of the Debian packages there: the checkout's files, and in vendor/ what
# Debian 12 does not have: nanobind to build the Python package, msgspec for the laboratory, in the
# pinned versions.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd -P)
# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
setup_begin debian_source "$root"
folder=$(realpath -m -- "$1")
[[ ! -e $folder ]] || setup_die "$folder exists"
cd "$root"

downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT
python=$setup_python
if [[ ! -x $python ]]; then # Debian's Python has no pip of its own
  setup_new_venv "$downloads/venv"
  python=$downloads/venv/bin/python
fi
# OPTION NAME: downloads the pinned version.
download() {
  "$python" -m pip --disable-pip-version-check download --quiet --no-deps "$1" -d "$downloads" \
    "$(grep -m1 "^$2==" python/requirements.txt)"
}
download --only-binary=:all: nanobind # a wheel of sources
download --no-binary=:all: msgspec

mkdir -p "$folder/vendor"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done |
  tar --null --no-recursion -T - -c | tar -x -C "$folder"
"$python" -m zipfile -e "$downloads"/nanobind-*.whl "$downloads/nanobind"
tar -xzf "$downloads"/msgspec-*.tar.gz -C "$downloads"
cp -r "$downloads/nanobind/nanobind" "$folder/vendor/nanobind"
cp -r "$downloads"/msgspec-*/src/msgspec "$folder/vendor/msgspec"
