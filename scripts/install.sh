#!/usr/bin/env bash
# BUILD-FOLDER PREFIX: installs a build, and lists in share/ferry/installed-files what uninstall.sh
# removes, also of earlier installations. Under $DESTDIR, if that is set, as for a package.
set -euo pipefail

prefix=$(realpath -m -- "$2")
list=${DESTDIR:-}$prefix/share/ferry/installed-files
cmake --install "$1" --prefix "$prefix"
earlier=$(cat -- "$list" 2>/dev/null || true)
mkdir -p "${list%/*}"
printf '%s\n' "$earlier" "$(<"$1/install_manifest.txt")" | sed '/^$/d' | sort -u >"$list"
# In the system's folders the loader finds libraries by its cache.
if [[ -z ${DESTDIR:-} && $EUID == 0 && ($prefix == /usr || $prefix == /usr/local) ]]; then
  PATH=$PATH:/sbin ldconfig
fi
