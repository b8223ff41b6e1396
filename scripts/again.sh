# shellcheck shell=bash
# For scripts/stage.sh to source: tests that failed, once more.
#
# A machine that others use now and then fails a test that is right, so ./test --ci runs what failed
# again, alone. What passes then, each time, is *unstable*: it is named at the end of the run, where
# its output stands above, and has to be mended like a failure. More than `unstable_max` of them fail
# the run. FERRY_TEST_UNSTABLE names the file that lists them; without it a failure is a failure.

unstable_max=3

# NAME...: notes unstable tests. Status 1: they are too many.
note_unstable() {
  printf '%s\n' "$@" >>"$FERRY_TEST_UNSTABLE"
  (($(wc -l <"$FERRY_TEST_UNSTABLE") <= unstable_max))
}

# PRESET CTEST-OPTION...: runs ctest; tests that fail run three times more, with their own seeds.
ctest_steadily() {
  local folder=build/$1/Testing/Temporary name number seed failed log status=0
  rm -f "$folder/LastTestsFailed.log" # which ctest leaves
  ctest --preset "$@" || status=$?
  # 8: all have run, and some failed.
  if ((status != 8)) || [[ -z ${FERRY_TEST_UNSTABLE:-} || ! -s $folder/LastTestsFailed.log ]]; then
    return "$status"
  fi
  failed=$(<"$folder/LastTestsFailed.log") # lines of NUMBER:NAME
  (($(wc -l <<<"$failed") <= unstable_max)) || return "$status"
  log=$folder/FirstTest.log # the next runs write another one
  cp "$folder/LastTest.log" "$log"
  while IFS=: read -r number name; do
    seed=$(seed_of "$name" "$log")
    printf 'again, three times%s: %s\n' "${seed:+, FERRY_TEST_SEED=$seed}" "$name"
    env ${seed:+FERRY_TEST_SEED="$seed"} ctest --preset "$1" -I "$number,$number" --repeat until-fail:3 \
      --output-on-failure --no-tests=error </dev/null || return "$status"
    note_unstable "$name" || return "$status"
  done <<<"$failed"
  mv "$log" "$folder/LastTest.log"
}

# NAME LOG: the seed that a test of ctest printed last, or nothing.
seed_of() {
  awk -v name="$1" '
    / Testing: / { sub(/^[^:]*: /, ""); here = $0 == name }
    here && match($0, /FERRY_TEST_SEED=[0-9]+/) { seed = substr($0, RSTART + 16, RLENGTH - 16) }
    END { print seed }' "$2"
}

# OPTION...: runs pytest; tests that fail run twice more.
pytest_steadily() {
  local cache status=0 names
  cache=$(mktemp -d)
  # shellcheck disable=SC2154 # setup_python: of scripts/setup.sh
  "$setup_python" -m pytest -q -o "cache_dir=$cache/first" "$@" || status=$?
  names=$(grep -o '"[^"]*::.*"' "$cache/first/v/cache/lastfailed" 2>/dev/null | tr -d '"') || true
  # 1: all have run, and some failed.
  if ((status == 1)) && [[ -n ${FERRY_TEST_UNSTABLE:-} && -n $names ]] &&
    (($(wc -l <<<"$names") <= unstable_max)); then
    printf 'again, twice: %s\n' "$names"
    cp -r "$cache/first" "$cache/second"
    if "$setup_python" -m pytest -q -o "cache_dir=$cache/first" "$@" -n 0 --lf --lfnf=none &&
      "$setup_python" -m pytest -q -o "cache_dir=$cache/second" "$@" -n 0 --lf --lfnf=none &&
      note_unstable "$names"; then
      status=0
    fi
  fi
  rm -rf "$cache"
  return "$status"
}

# COMMAND...: runs it; if it fails, twice more.
steadily() {
  local status=0
  "$@" || status=$?
  if ((status == 0)) || [[ -z ${FERRY_TEST_UNSTABLE:-} ]]; then return "$status"; fi
  printf 'again, twice: %s\n' "$*"
  if "$@" && "$@"; then
    note_unstable "$*"
  else
    return "$status"
  fi
}
