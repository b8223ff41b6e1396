#!/usr/bin/env bash
# Builds dist/ferry_io-*.whl and dist/ferry_lab-*.whl, the laboratory. They serve CPython 3.11 and newer
# with glibc 2.28 or newer, for the architectures that are named, x86_64 and aarch64, or for x86_64.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd -P)

# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
setup_begin wheels "$root"
folder=$setup_dir/wheels
python=$folder/venv/bin/python

make_environment() {
  local wanted=$root/python/requirements-wheels.txt
  if cmp -s "$wanted" "$folder/venv/stamp"; then return; fi
  setup_say "installing the compiler's wheels (450 MB) into $folder"
  setup_new_venv "$folder/venv"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$wanted" >>"$setup_log" 2>&1 ||
    setup_die "the wheels of $wanted could not be installed; $setup_log says why"
  cp "$wanted" "$folder/venv/stamp"
}

# ARCHITECTURE: as Debian calls it.
debian_name() {
  case $1 in
    x86_64) printf amd64 ;;
    aarch64) printf arm64 ;;
  esac
}

# ARCHITECTURE RELEASE PACKAGES PATH...: copies these paths of the packages to the architecture's folder.
unpack() {
  local path unpacked=$scratch/unpacked
  mmdebstrap --quiet --variant=extract --architectures="$(debian_name "$1")" --include="$3" "$2" "$unpacked"
  for path in "${@:4}"; do
    mkdir -p "$folder/$1/$(dirname -- "$path")"
    cp -rL --preserve=timestamps "$unpacked/$path" "$folder/$1/$path" # else all is built again
  done
  rm -rf "$unpacked"
}

# ARCHITECTURE: the headers of both Pythons and both MPI libraries, and what Ferry is built of besides.
make_root() {
  local multiarch=$1-linux-gnu
  local libraries=usr/lib/$multiarch recipe
  recipe=$(declare -f unpack make_root)
  if [[ ! -e $folder/$1/complete || $(<"$folder/$1/complete") != "$recipe" ]]; then
    setup_say "unpacking the headers and libraries of $1"
    rm -rf "${folder:?}/$1"
    unpack "$1" trixie libpython3.13-dev usr/include/python3.13 "usr/include/$multiarch/python3.13"
    unpack "$1" bookworm \
      libgcc-s1,libpython3.11-dev,liburing-dev,nlohmann-json3-dev,libtomlplusplus-dev,libxxhash-dev \
      usr/include/{python3.11,liburing,liburing.h,nlohmann,toml++,xxhash.h} "usr/include/$multiarch/python3.11" \
      "$libraries/liburing.a" "$libraries/pkgconfig/liburing.pc" usr/share/cmake/nlohmann_json \
      "lib/$multiarch/libgcc_s.so.1"
    unpack "$1" bookworm libmpich-dev,libopenmpi-dev "usr/include/$multiarch/mpich"/{mpi,mpi_proto,mpio}.h \
      "$libraries/openmpi/include"/{mpi,mpi_portable_platform}.h
    printf '%s\n' "$recipe" >"$folder/$1/complete"
  fi
  cat >"$folder/$1/c++" <<END
#!/bin/bash
# Instead of that option, which zig does not know, cmake/wheel.symbols hides names. Without -O2 zig adds
# a sanitizer.
for word; do
  shift
  [[ \$word == -Wl,--exclude-libs,ALL ]] || set -- "\$@" "\$word"
done
export ZIG_GLOBAL_CACHE_DIR=$folder/cache ZIG_LOCAL_CACHE_DIR=$folder/cache
exec $python -m ziglang c++ -target $1-linux-gnu.2.28 -O2 "\$@"
END
  chmod +x "$folder/$1/c++"
}

# ARCHITECTURE
build() {
  local made=$scratch/$1
  setup_say "building the wheels for $1, which takes minutes"
  rm -f "$root/dist"/ferry_{io,lab}-*_"$1".whl
  SKBUILD_BUILD_DIR=$root/build/wheel-$1 CMAKE_GENERATOR=Ninja \
    CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/wheel.cmake -DFERRY_WHEEL_ROOT=$folder/$1" \
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$made" \
    "$root" "$root/lab" >>"$setup_log" 2>&1 || setup_die "the wheels for $1 could not be built; $setup_log says why"
  # It holds a module for 3.11 and one for the stable ABI of all newer ones.
  "$python" -m wheel tags --remove --python-tag cp311 --abi-tag abi3 --platform-tag "manylinux_2_28_$1" \
    "$made"/ferry_io-*.whl >>"$setup_log"
  "$python" -m wheel tags --remove --platform-tag "manylinux_2_28_$1" "$made"/ferry_lab-*.whl >>"$setup_log"
  mkdir -p "$root/dist"
  mv "$made"/*.whl "$root/dist"
}

architectures=("${@:-x86_64}")
for architecture in "${architectures[@]}"; do
  [[ $architecture == x86_64 || $architecture == aarch64 ]] ||
    setup_die "wheels are for x86_64 and aarch64, not for $architecture"
done
for list in run wheels; do
  setup_packages "$list" ||
    setup_die "the packages of scripts/packages-$list.txt are missing; install them"
done
setup_lock wheels
mkdir -p "$folder"
scratch=$(mktemp -d)
chmod 755 "$scratch" # mmdebstrap has another user id where it is not run by root
trap 'rm -rf "$scratch"' EXIT
make_environment
for architecture in "${architectures[@]}"; do
  make_root "$architecture"
  build "$architecture"
done
