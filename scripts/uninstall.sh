#!/usr/bin/env bash
# PREFIX: removes what `make install` put there, by the list that it left, and folders that are empty
# then. Under $DESTDIR, if that is set.
set -euo pipefail

prefix=$(realpath -m -- "$1")
root=${DESTDIR:-} # the names in the list are without it
list=$root$prefix/share/ferry/installed-files
if [[ ! -f $list ]]; then
  printf 'uninstall: no %s, so nothing is known to be installed in %s\n' "$list" "$root$prefix" >&2
  exit 1
fi
folders=()
while IFS= read -r file || [[ -n $file ]]; do
  case $file in
    */../* | */..) refused=yes ;;
    "$prefix"/*) refused=no ;;
    *) refused=yes ;;
  esac
  if [[ $refused == yes ]]; then
    printf 'uninstall: %s names %s, which is not in %s; nothing more is removed\n' "$list" "$file" "$prefix" >&2
    exit 1
  fi
  rm -f -- "$root$file"
  folders+=("$root${file%/*}")
done <"$list"
rm -f -- "$list"
# What Python made beside the modules.
if [[ -d $root$prefix/lib/ferry/python ]]; then
  find "$root$prefix/lib/ferry/python" -name __pycache__ -prune -exec rm -rf -- {} +
fi
# The system's own folders, such as /usr/local/bin, were there before.
theirs=''
if [[ $prefix == /usr || $prefix == /usr/local ]]; then theirs=$root$prefix/share/man; fi
printf '%s\n' "${folders[@]}" "$root$prefix/share/ferry" | sort -ru | while IFS= read -r folder; do
  while [[ $folder == "$root$prefix"/${theirs:+*/}?* && $folder != "$theirs" ]] && rmdir -- "$folder" 2>/dev/null; do
    folder=${folder%/*}
  done
done
printf 'removed %d files from %s\n' "${#folders[@]}" "$root$prefix"
