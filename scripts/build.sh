#!/usr/bin/env bash
# PRESET: sets up what is missing and builds the preset.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd -P)
# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
setup_begin build "$root"
setup_all "${2:-run}" "${1:-release}"
setup_build "${1:-release}"
