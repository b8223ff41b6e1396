# shellcheck shell=bash
# Sets up what Ferry needs: Debian packages, a private Python environment, the C++ build.
# Sourced by ferry, test and scripts/*.sh, which call setup_begin, then setup_all, setup_build.
#
# All messages go to standard error: standard output belongs to the command. An interrupted set-up
# continues where it stopped, because each part records its completion last.

setup_say() { printf '%s\n' "$*" >&2; }

setup_die() {
  setup_say "$setup_name: $*"
  exit 1
}

# NAME ROOT: the name for messages, and the checkout.
setup_begin() {
  setup_name=$1
  setup_root=$2
  setup_dir=$setup_root/.ferry
  setup_log=$setup_dir/setup.log
  setup_venv=$setup_dir/venv
  setup_python=$setup_venv/bin/python
  declare -gA setup_locks=()
  setup_step=0
  setup_steps=0
}

# Whether this user can set up or build in the checkout.
setup_can_write() {
  local lock
  if [[ -e $setup_dir ]]; then
    for lock in "$setup_dir" "$setup_dir"/lock*; do
      [[ ! -e $lock || -w $lock ]] || return 1
    done
  else
    [[ -w $setup_root ]]
  fi
}

# PRESET: whether to use set-up and build as they are: another user's, or on a read-only file
# system.
setup_use_as_is() {
  ! setup_can_write && [[ -x $setup_python && -x $setup_root/build/$1/ferry-bench ]]
}

# ---- one at a time ---------------------------------------------------------------------------

# [NAME]: one process at a time in what NAME stands for: the set-up, or a build folder.
setup_lock() {
  local name=${1:-set-up} fd
  [[ -z ${setup_locks[$name]:-} ]] || return 0
  if ! setup_can_write; then
    setup_die "cannot write in $setup_root, and it is not built yet; its owner can run ./ferry info" \
      "there once, then others can use it; or make a checkout of your own"
  fi
  mkdir -p "$setup_dir"
  exec {fd}>>"$setup_dir/lock${1:+-$1}"
  setup_locks[$name]=$fd
  command -v flock >/dev/null || return 0
  if ! flock -n "$fd"; then
    setup_say "$setup_name: waiting for another set-up or build in this checkout to finish"
    flock "$fd"
  fi
}

setup_unlock() {
  local name=${1:-set-up} fd
  fd=${setup_locks[$name]:-}
  [[ -n $fd ]] || return 0
  exec {fd}>&-
  unset "setup_locks[$name]"
}

# ---- what is needed --------------------------------------------------------------------------

# SET: its package lists. `test` extends `run`; the others are separate.
setup_lists() {
  if [[ $1 != run && $1 != test ]]; then
    printf '%s\n' "$setup_root/scripts/packages-$1.txt"
    return
  fi
  printf '%s\n' "$setup_root/scripts/packages-run.txt"
  [[ $1 == run ]] || printf '%s\n' "$setup_root/scripts/packages-test.txt"
}

# SET: its Python requirements file. That of `test` includes those of `run`.
setup_requirements() {
  local name=requirements-test
  [[ $1 != run ]] || name=requirements
  printf '%s\n' "$setup_root/python/$name.txt"
}

# FILE...: the words in list files, without comments, one per line.
setup_words() {
  local file line word
  for file in "$@"; do
    while IFS= read -r line || [[ -n $line ]]; do
      for word in ${line%%#*}; do printf '%s\n' "$word"; done
    done <"$file"
  done
}

setup_on_debian() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

# SET: its missing Debian packages, one per line.
setup_missing_packages() {
  local -a lists packages
  local -A installed=()
  local status name
  mapfile -t lists < <(setup_lists "$1")
  mapfile -t packages < <(setup_words "${lists[@]}")
  # dpkg-query fails for an unknown package, but its list of the others is right.
  while read -r status name; do
    [[ $status != installed ]] || installed[$name]=1
  done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null)
  for name in "${packages[@]}"; do
    [[ -n ${installed[$name]:-} ]] || printf '%s\n' "$name"
  done
}

# WANTED FOUND: whether version FOUND is at least WANTED.
setup_at_least() {
  [[ -n $2 && $(printf '%s\n' "$1" "$2" | sort -V | sed -n 1p) == "$1" ]]
}

# The interpreter for the private environment: the system's if suitable, because others (pyenv,
# conda) depend on the user's settings.
setup_base_python() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
      >/dev/null 2>&1; then
      command -v "$python"
      return
    fi
  done
  return 1
}

# HEADER [OPTION...]: whether the compiler finds it.
setup_finds() {
  "${CXX:-g++}" -x c++ -std=c++20 "${@:2}" -E -include "$1" /dev/null >/dev/null 2>&1
}

# Whether the interpreter's headers are installed, for the extension module.
setup_python_headers() {
  local python include
  python=$(setup_base_python) || return 1
  include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  setup_finds Python.h -I "$include"
}

# SET: the tools missing on a machine without Debian's packages, one per line.
setup_missing_tools() {
  local compiler=${CXX:-g++} tool version
  local -a tools=()
  version=$("$compiler" -dumpfullversion -dumpversion 2>/dev/null || true)
  setup_at_least 12 "$version" || printf '%s\n' "g++ 12 or newer"
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p' || true)
  setup_at_least 3.25 "$version" || printf '%s\n' "cmake 3.25 or newer"
  command -v ninja >/dev/null || printf '%s\n' "ninja"
  setup_base_python >/dev/null || printf '%s\n' "python3 3.11 or newer with its venv module"
  pkg-config --exists 'liburing >= 2.3' 2>/dev/null ||
    printf '%s\n' "liburing 2.3 or newer with its headers, and pkg-config"
  setup_finds nlohmann/json.hpp || printf '%s\n' "the headers of nlohmann-json"
  setup_finds toml++/toml.h || printf '%s\n' "the headers of toml++"
  setup_finds xxhash.h || printf '%s\n' "the headers of xxHash"
  setup_python_headers || printf '%s\n' "the headers of that python3 (Python.h)"
  [[ $1 != run ]] || return 0
  pkg-config --exists gtest 2>/dev/null || printf '%s\n' "googletest"
  tools=(chromedriver chromium clang-tidy fio gcc git mpicxx mpiexec spin tcc)
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || printf '%s\n' "$tool"
  done
}

# SET: identifies what the Python environment must have been made for.
setup_python_key() {
  { cat "$(setup_requirements "$1")" && readlink -f "$setup_python"; } 2>/dev/null | sha256sum
}

# SET
setup_python_ready() {
  [[ -x $setup_python && ! -e $setup_venv/installing && -f $setup_venv/$1.stamp ]] &&
    [[ $(<"$setup_venv/$1.stamp") == "$(setup_python_key "$1")" ]]
}

# ---- messages and steps ---------------------------------------------------------------------

# SET BUILD: sets up everything that SET needs. BUILD is the preset that the caller builds next, or
# empty; here it is only announced.
setup_all() {
  local set=$1 build=$2
  local -a missing=()
  local python=0
  setup_lock
  if setup_on_debian; then
    mapfile -t missing < <(setup_missing_packages "$set")
  elif ! setup_python_ready "$set"; then # looked at once only: it is slow, and nothing changes it
    setup_check_tools "$set"
  fi
  if ((${#missing[@]})) && ! setup_can_install; then
    setup_go_without_packages "$set" "${missing[@]}"
    missing=()
  fi
  setup_python_ready "$set" || python=1
  if ((${#missing[@]} == 0 && python == 0)); then return 0; fi

  setup_announce "$set" "$python" "$build" "${missing[@]}"
  printf '\n==== set-up for "%s", %(%F %T)T\n' "$set" -1 >>"$setup_log"
  if ((${#missing[@]})); then setup_install_packages "${missing[@]}"; fi
  # Packages can change the environment's interpreter, so check again.
  if ! setup_python_ready "$set"; then setup_make_python "$set"; fi
  : >"$setup_dir/changed"
}

# SET: installs its missing Debian packages if possible. Fails if some are still missing.
setup_packages() {
  local -a missing=()
  setup_on_debian || return 1
  setup_lock
  mapfile -t missing < <(setup_missing_packages "$1")
  if ((${#missing[@]})); then
    setup_can_install || return 1
    setup_say "installing Debian packages, for the whole system, by apt-get: ${missing[*]}"
    setup_install_packages "${missing[@]}"
  fi
  setup_unlock
}

# SET PYTHON BUILD [PACKAGE...]
setup_announce() {
  local set=$1 python=$2 build=$3 size=270
  shift 3
  setup_say "First-time set-up. It will"
  if (($#)); then
    setup_steps=$((setup_steps + 1))
    setup_say "  install Debian packages, for the whole system, by apt-get:"
    setup_say "    $*"
    setup_say "    ($(setup_size "$set" "$@") with dependencies; less if some are installed)"
  fi
  if ((python)); then
    setup_steps=$((setup_steps + 1))
    if [[ $set == run ]]; then size=220; fi
    setup_say "  make a private Python environment in $setup_venv (about $size MB), with:"
    setup_say "    $(setup_words "$(setup_requirements "$set")" | tr '\n' ' ')"
  fi
  if [[ -n $build && ! -e $setup_root/build/$build/build.ninja ]]; then
    setup_steps=$((setup_steps + 1))
    setup_say "  build the C++ programs in $setup_root/build/$build"
  fi
}

# SET PACKAGE...: the packages' maximum size, from their lists.
setup_size() {
  local list package size sizes=
  local -a lists
  mapfile -t lists < <(setup_lists "$1")
  for list in "${lists[@]}"; do
    size=$(sed -n 's/^# size: \(.*\), on a bare .*/\1/p' "$list")
    for package in "${@:2}"; do
      if grep -qxF -e "$package" < <(setup_words "$list"); then
        sizes+="${sizes:+, and }$size"
        break
      fi
    done
  done
  printf '%s' "$sizes"
}

setup_headline() {
  if ((setup_steps == 0)); then # nothing was announced: a mere build
    setup_say "$*"
    return
  fi
  setup_step=$((setup_step + 1))
  # More steps than announced: something new turned up.
  if ((setup_step > setup_steps)); then setup_steps=$setup_step; fi
  setup_say "[$setup_step/$setup_steps] $*"
}

# MESSAGE: prints the end of the log and the message, and exits.
setup_fail() {
  setup_say "    ---- the last lines of $setup_log"
  tail -n 15 "$setup_log" | sed 's/^/    /' >&2
  setup_say "    ----"
  setup_die "$*, then run the same command again; it continues from here"
}

# ---- Debian packages -------------------------------------------------------------------------

setup_can_install() {
  ((EUID == 0)) && return 0
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null || [[ -t 0 ]]
}

# SET PACKAGE...: without permission to install them, continue if the tools are there.
setup_go_without_packages() {
  local set=$1 lacking
  shift
  # Remembered, because checking every tool is slow.
  if [[ -f $setup_dir/without && $(<"$setup_dir/without") == "$*" ]]; then return 0; fi
  lacking=$(setup_missing_tools "$set")
  if [[ -z $lacking ]]; then
    setup_say "$setup_name: using the tools found in PATH instead of the Debian packages $*"
    printf '%s\n' "$*" >"$setup_dir/without"
    return 0
  fi
  setup_say "$setup_name: Debian packages are missing, and only an administrator can install them"
  setup_say "$setup_name: (you are not root, and sudo is missing or wants a password). Ask for this:"
  setup_say "  apt-get update && apt-get install --no-install-recommends $*"
  setup_die "then run the same command again"
}

# SET: for a system without apt.
setup_check_tools() {
  local lacking
  lacking=$(setup_missing_tools "$1")
  [[ -n $lacking ]] || return 0
  setup_say "$setup_name: this is not a Debian system; install these with its package manager:"
  setup_say "  ${lacking//$'\n'/$'\n'  }"
  setup_die "then run the same command again"
}

setup_as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

setup_apt() {
  setup_as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
    apt-get -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=2 "$@" </dev/null 2>&1
}

setup_install_packages() {
  setup_headline "Debian packages: reading the lists"
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    setup_say "    sudo asks for your password, to run apt-get"
    sudo -v || setup_die "sudo refused; ask an administrator to run: apt-get install --no-install-recommends $*"
  fi
  # An unreadable list may not matter: the installation decides.
  setup_apt update -o APT::Update::Error-Mode=any >>"$setup_log" || {
    setup_say "    apt-get update failed; trying once more"
    sleep 3
    setup_apt update -o APT::Update::Error-Mode=any >>"$setup_log" ||
      setup_say "    it failed again: $(sed -n 's/^[EW]: //p' "$setup_log" | tail -n 1)"
  }
  setup_finish_interrupted
  setup_apt_install "$@" && return
  setup_say "    apt-get install failed; trying once more"
  sleep 3
  setup_finish_interrupted
  setup_apt update >>"$setup_log" || true
  setup_apt_install "$@" ||
    setup_fail "apt-get could not install the packages: mend what it says above"
}

# An interrupted installation leaves packages half-configured, and apt-get refuses to continue.
setup_finish_interrupted() {
  [[ -n $(dpkg --audit 2>/dev/null) ]] || return 0
  setup_say "    finishing an interrupted installation of packages"
  setup_as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive dpkg --configure -a \
    </dev/null >>"$setup_log" 2>&1 || true
}

setup_apt_install() { setup_apt install --no-install-recommends "$@" | setup_apt_progress; }

# Logs the output of apt-get, and summarises its progress.
setup_apt_progress() {
  local line total=0 done=0 step=0 size=
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$setup_log"
    if [[ $line =~ ([0-9]+)' newly installed' ]]; then
      total=${BASH_REMATCH[1]}
    elif [[ $line =~ ^'Need to get '(.*)' of archives' ]]; then
      size=${BASH_REMATCH[1]}
    elif [[ $line =~ ^'After this operation, '([0-9.,]+ [kMG]?B)' of additional' ]]; then
      setup_say "    packages with dependencies: $total, ${BASH_REMATCH[1]} on disk, $size to download"
    elif [[ $line == 'Setting up '* ]]; then
      done=$((done + 1))
      if ((total > 0 && done * 4 / total > step)); then
        step=$((done * 4 / total))
        setup_say "    $done of $total installed"
      fi
    fi
  done
}

# ---- the private Python environment ----------------------------------------------------------

# SET
setup_make_python() {
  local set=$1
  setup_headline "Python environment"
  if ! setup_venv_usable; then setup_make_venv; fi

  : >"$setup_venv/installing" # still there after an interruption: then it is made anew
  # Settings that redirect packages would leave the environment empty.
  env -u PIP_USER -u PIP_TARGET -u PIP_PREFIX -u PYTHONPATH -u PYTHONHOME \
    "$setup_python" -m pip install --quiet --disable-pip-version-check --no-input \
    -r "$(setup_requirements "$set")" </dev/null >>"$setup_log" 2>&1 ||
    setup_fail "pip could not install the Python packages: mend what it says above"
  setup_python_key run >"$setup_venv/run.stamp"
  setup_python_key "$set" >"$setup_venv/$set.stamp"
  rm -f "$setup_venv/installing"
}

# Whether the environment is complete and still belongs to its interpreter.
setup_venv_usable() {
  [[ -x $setup_python && -f $setup_venv/base.stamp && ! -e $setup_venv/installing ]] &&
    [[ $(<"$setup_venv/base.stamp") == "$(readlink -f "$setup_python")" ]]
}

setup_make_venv() {
  setup_new_venv "$setup_venv"
  readlink -f "$setup_python" >"$setup_venv/base.stamp"
}

# FOLDER: makes a Python environment there, with pip alone.
setup_new_venv() {
  local python
  python=$(setup_base_python) ||
    setup_die "no python3 of version 3.11 or newer with its venv module was found; install one (Debian: python3-venv)"
  rm -rf "$1"
  env -u PYTHONPATH -u PYTHONHOME "$python" -m venv "$1" </dev/null >&2 ||
    setup_die "the Python environment $1 could not be made; the reason is above"
}

# ---- the C++ build ---------------------------------------------------------------------------

# PRESET: configures and builds a preset. Silent when up to date.
setup_build() {
  local configured=${1%-*}
  setup_unlock # the set-up's; a build needs only its folder's
  setup_lock "$configured"
  setup_is_configured "$1" || setup_configure "$1"
  if ! setup_is_built "$1"; then
    setup_headline "C++ build in build/$configured"
    setup_build_really "$1" || setup_die "the build of $1 failed; the reason is above"
  fi
  setup_unlock "$configured"
}

# PRESET: whether Ninja can take over. It reconfigures after a change of a CMake file, but does not
# notice changed presets or newly installed packages.
setup_is_configured() {
  local build=$setup_root/build/${1%-*}
  local ninja=$build/build.ninja
  [[ -e $ninja && ! $setup_root/CMakePresets.json -nt $ninja && ! $setup_dir/changed -nt $ninja ]] ||
    return 1
  if [[ $1 == *-tests && $(setup_cached "$build" FERRY_TESTS) != ON ]]; then return 1; fi
  setup_is_ours "$build"
}

# BUILD NAME: an entry of CMake's cache.
setup_cached() { sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt"; }

# BUILD: whether it was configured for this checkout at this path.
setup_is_ours() { [[ $(setup_cached "$1" CMAKE_HOME_DIRECTORY) -ef $setup_root ]]; }

# PRESET
setup_configure() {
  local configured=${1%-*} output
  local build=$setup_root/build/$configured
  local -a options=()
  # A copied or moved build folder is configured from scratch.
  if [[ -e $build/CMakeCache.txt ]] && ! setup_is_ours "$build"; then options+=(--fresh); fi
  if [[ $1 == *-tests ]]; then options+=(-DFERRY_TESTS=ON); fi
  output=$(cd "$setup_root" && cmake --preset "$configured" "${options[@]}" 2>&1 </dev/null) || {
    setup_say "$output"
    setup_die "the build could not be configured; the reason is above"
  }
}

# PRESET
setup_is_built() {
  local output
  output=$(cd "$setup_root" && cmake --build --preset "$1" -- -n 2>&1 </dev/null) &&
    [[ $output == *'no work to do.'* ]]
}

# PRESET
setup_build_really() (
  cd "$setup_root" || exit
  if [[ -t 2 ]]; then
    cmake --build --preset "$1" </dev/null >&2 # Ninja keeps to one line on a terminal
  else
    cmake --build --preset "$1" </dev/null 2>&1 | setup_build_progress >&2
  fi
)

# Keeps every tenth part of Ninja's progress, and all other lines except CMake's messages.
setup_build_progress() {
  local line tenth=0 now steps=
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]' ' ]]; then
      if [[ ${BASH_REMATCH[2]} != "$steps" ]]; then tenth=0; fi # CMake ran first, and counted by itself
      steps=${BASH_REMATCH[2]}
      now=$((BASH_REMATCH[1] * 10 / steps))
      ((now > tenth)) || continue
      tenth=$now
      printf '    %s of %s steps\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif [[ $line != '-- '* ]]; then
      printf '%s\n' "$line"
    fi
  done
}
