#!/usr/bin/env bash
# Lists the checkout's C, C++ and CUDA files, new ones too, one per line.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

list() {
  # Without git (a release archive, another user's checkout), skip the ignored folders.
  git ls-files --cached --others --exclude-standard -- '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' 2>/dev/null ||
    find . \( -path ./build -o -path ./.ferry -o -path ./results \) -prune -o \
      \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cpp' -o -name '*.cu' \) -type f -printf '%P\n'
}

list | sort -u | while IFS= read -r file; do
  if [[ -f $file ]]; then printf '%s\n' "$file"; fi # git lists what was deleted, too
done
