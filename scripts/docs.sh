#!/usr/bin/env bash
# Builds the documentation's site in build/docs/html, with the tools of packages-docs.txt and
# docs/site/requirements.txt in their own environment.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd -P)
cd "$root"
# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
setup_begin docs "$root"
setup_packages docs || command -v doxygen >/dev/null || setup_die "doxygen is missing; install it"
setup_all run release
setup_build release # the package's extension module, which is documented from within

environment=$setup_dir/docs
wanted=docs/site/requirements.txt
if ! cmp -s "$wanted" "$environment/requirements.stamp"; then
  setup_say "docs: making a Python environment in $environment (about 300 MB)"
  setup_new_venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$wanted"
  cp "$wanted" "$environment/requirements.stamp"
fi

mkdir -p build/docs
rm -rf build/docs/doxygen build/docs/commands
doxygen docs/site/Doxyfile
export FERRY_BUILD_DIR=$root/build/release FERRY_PROFILE=
"$environment/bin/sphinx-build" -q -W --keep-going -b html -c docs/site \
  -d build/docs/doctrees . build/docs/html
setup_say "docs: build/docs/html/docs/site/index.html"
