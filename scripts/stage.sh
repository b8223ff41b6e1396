#!/usr/bin/env bash
# NAME: runs one stage of ./test, in its own shell so that the first failing command ends it.
# FERRY_TEST_DEPTH is quick, default or deep. FERRY_TEST_SLOW=no leaves out tests/slow.txt.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd -P)
depth=${FERRY_TEST_DEPTH:=default}
export FERRY_TEST_DEPTH
cd "$root"

# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
# shellcheck source=scripts/again.sh
source "$root/scripts/again.sh"
setup_begin test "$root"

# The thread sanitizer crashes with some random address layouts. Where possible, rerun this stage
# without them.
without_random_addresses() {
  [[ -z ${FERRY_FIXED_ADDRESSES:-} ]] || return 0
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    FERRY_FIXED_ADDRESSES=1 exec setarch "$(uname -m)" -R "$root/scripts/stage.sh" "$1"
  fi
}

# BUILD-PRESET TEST-PRESET TESTS-AT-ONCE [CTEST-OPTION...]
build_and_test() {
  setup_build "$1"
  shift
  ctest_steadily "$1" --parallel "$2" --output-on-failure --no-tests=error "${@:3}" |
    only_news
  print_slowest "$1"
}

# PRESET: the ten slowest tests of its last run.
print_slowest() {
  printf 'the slowest tests:\n'
  awk '/^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); name = $0 }
       /^Test time = / { printf "%8.1f s  %s\n", $4, name }' \
    "build/$1/Testing/Temporary/LastTest.log" | sort -rn | sed -n 1,10p
}

# Drops ctest's two lines for each passed or skipped test; ctest lists the skipped ones at the end.
only_news() {
  sed -uE -e '/^ *Start +[0-9]+: /d' \
    -e '/^ *[0-9]+\/[0-9]+ Test .*( Passed|\*\*\*Skipped) +[0-9.]+ sec *$/d'
}

# The slow tests of ctest or pytest, or none if they are to be run.
slow_tests() {
  [[ ${FERRY_TEST_SLOW:-yes} == no ]] || return 0
  case $1 in
    ctest) grep -Ev '^#|::' tests/slow.txt ;;
    pytest) grep :: tests/slow.txt ;;
  esac
}

stage_unit() {
  local -a options=()
  local left_out
  left_out=$(slow_tests ctest | sed 's/[.]/[.]/g' | paste -sd'|')
  if [[ -n $left_out ]]; then options=(-E "^($left_out)([/ ]|\$)"); fi
  build_and_test release-tests release "$(nproc)" "${options[@]}"
}

stage_python() {
  # The mock CUDA driver is a target of the tests.
  setup_is_configured release-tests || setup_configure release-tests
  setup_build release
  cmake --build build/release --target mocks >>"$setup_log" 2>&1 ||
    setup_die "the mocks could not be built; $setup_log says why"
  unset PYTHONHOME
  local -a left_out
  mapfile -t left_out < <(slow_tests pytest | sed 's/^/--deselect=/')
  PYTHONPATH=$root/python:$root/lab FERRY_BUILD_DIR=$root/build/release \
    pytest_steadily tests/python lab/tests --durations=10 -n "$(nproc)" --dist loadfile "${left_out[@]}"
}

# The parts of these stages that ./test runs ahead of them.
stage_asan_build() { setup_build asan; }
stage_tsan_build() { setup_build tsan; }

# One test more than there are CPUs: a third of the time tests wait for calls that are late.
stage_asan() { build_and_test asan asan $(($(nproc) + 1)); }

stage_tsan() {
  without_random_addresses tsan
  build_and_test tsan tsan $(($(nproc) + 1))
}

# NAME WHAT: the wheels of python/requirements-NAME.txt, into the private environment.
install_wheels() {
  local stamp=$setup_venv/$1.stamp wanted=python/requirements-$1.txt
  if cmp -s "$wanted" "$stamp"; then return; fi
  setup_say "installing $2 into $setup_venv"
  "$setup_python" -m pip install -q --no-deps -r "$wanted" </dev/null >>"$setup_log" 2>&1 ||
    setup_die "the wheels of $wanted could not be installed; $setup_log says why"
  cp "$wanted" "$stamp"
}

# What the C++ tests reach, as a table of the rooms and a page for each file. A failed test is reported
# at the end: what the others reach is known all the same.
stage_coverage() {
  local report=build/coverage/report status=0
  install_wheels coverage "gcovr (10 MB)"
  setup_build coverage
  find build/coverage -name '*.gcda' -delete # the counts of earlier runs
  ctest --preset coverage --parallel "$(nproc)" --output-on-failure --no-tests=error | only_news ||
    status=$?
  mkdir -p "$report"
  "$setup_venv/bin/gcovr" --root . --object-directory build/coverage -j "$(nproc)" \
    --filter 'src/' --filter 'include/' --merge-lines --merge-mode-functions merge-use-line-min \
    --exclude-throw-branches --exclude-unreachable-branches --gcov-ignore-parse-errors all \
    --html-details "$report/index.html" --lcov "$report/lines.info" build/coverage \
    >>"$setup_log" 2>&1 || setup_die "gcovr failed; $setup_log says why"
  "$setup_python" scripts/coverage.py "$report/lines.info"
  printf 'what is not reached: %s; scripts/coverage.py --unreached lists it\n' "$report/index.html"
  return "$status"
}

# The CUDA compiler: from the PATH, else pinned wheels in the private environment.
find_nvcc() {
  if command -v nvcc; then return; fi
  install_wheels cuda "the CUDA compiler's wheels (130 MB), because no nvcc is on the PATH,"
  find "$setup_venv" -path '*/bin/nvcc' -type f
}

# The folder of cuda.h: the compiler's, else the wheels'.
find_cuda_headers() {
  local nvcc=$1 header
  for header in "$(dirname -- "$(dirname -- "$(readlink -f "$nvcc")")")/include" "$setup_venv"; do
    header=$(find -L "$header" -name cuda.h -type f 2>/dev/null | head -n 1)
    if [[ -n $header ]]; then
      dirname -- "$header"
      return
    fi
  done
  setup_die "no cuda.h beside $nvcc"
}

# NVCC SOURCE OUTPUT [OPTION...]: compiles like a user of the library, with warnings as errors.
compile_cuda() {
  "$1" -std=c++20 -Iinclude -Isrc -Ilab -Itests --Werror all-warnings \
    -Xcompiler -Wall,-Wextra,-Wno-psabi -o "$3" "$2" "${@:4}"
}

# Compiles device headers and the kernels of tests, examples, benchmarks and tools as CUDA, and
# checks Ferry's declarations of the driver and cuFile against cuda.h and cufile.h. Running kernels
# needs a GPU: ./test --device cuda. Nothing here runs, so the compiler optimises little, which saves
# most of the time; CUDA 12.9 was the first with that option.
stage_cuda() {
  local nvcc output source headers passed=1 level=
  local -a sources=()
  if [[ ${FERRY_CUDA:-} == off ]]; then
    setup_say "absent: CUDA, because FERRY_CUDA=off says so: no kernel is compiled"
    return
  fi
  nvcc=$(find_nvcc)
  headers=$(find_cuda_headers "$nvcc")
  "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -Isrc -Itests -isystem "$headers" \
    tests/cuda/driver_abi.cpp ||
    setup_die "src/backend/cuda/abi.hpp differs from $headers/cuda.h"
  printf 'ok: the driver interface agrees with cuda.h\n'
  if [[ -e $headers/cufile.h ]]; then
    "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -Isrc -Itests -isystem "$headers" \
      tests/cuda/cufile_abi.cpp ||
      setup_die "src/backend/cuda/cufile_abi.hpp differs from $headers/cufile.h"
    printf "ok: cuFile's interface agrees with cufile.h\n"
    passed=2
  else
    setup_say "absent: cufile.h beside cuda.h, so cuFile's interface is not compared"
  fi
  if [[ $("$nvcc" --help) == *--Ofast-compile* ]]; then level=-Ofc=mid; fi
  for source in tests/cuda/*.cu examples/*/*.cu lab/micro/*.cu lab/harness/cuda/*.cu; do
    if [[ -e $source ]]; then sources+=("$source"); fi
  done
  output=$(mktemp -d)
  export -f compile_cuda compile_for_both
  printf '%s\0' "${sources[@]}" |
    xargs -0 -n 1 -P "$(nproc)" bash -c 'compile_for_both "$@"' compile_for_both "$nvcc" "$output" "$level" ||
    setup_die "the above does not compile as CUDA for sm_80 and sm_90"
  rm -rf "$output"
  printf '%d passed, 0 failed\n' $((passed + ${#sources[@]}))
}

# NVCC FOLDER LEVEL SOURCE
compile_for_both() {
  compile_cuda "$1" "$4" "$2/${4//\//_}.o" -c ${3:+"$3"} \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 || return
  printf 'ok: %s compiles for sm_80 and sm_90\n' "$4"
}

# The device tests on this machine's GPU, and under compute-sanitizer if installed.
stage_gpu() {
  local nvcc kind tool
  if ! nvidia-smi -L 2>/dev/null | grep -q .; then
    setup_die "there is no NVIDIA GPU with a working driver here (nvidia-smi lists none); ./test without --device runs the same device programs on the cpu device and on a mock GPU"
  fi
  nvidia-smi -L
  setup_build release
  nvcc=$(find_nvcc)
  mkdir -p build/gpu
  build_gpu_tests "$nvcc"
  build/gpu/launch_tests --gtest_brief=1
  for kind in "${gpu_kinds[@]}"; do
    "build/gpu/device_tests_$kind" --gtest_brief=1
  done
  for tool in memcheck racecheck; do
    if ! command -v compute-sanitizer >/dev/null; then
      setup_say "absent: compute-sanitizer, so $tool is not run"
      continue
    fi
    # The tests that move bytes through the page cache.
    for kind in Warps Blocks; do
      sanitize "$tool" "build/gpu/device_tests_$kind" 'Copies*:KernelCalls*:GroupCalls*Stripes*'
    done
  done
}

gpu_kinds=(Threads Parts Warps Blocks)

# NVCC: compiles all at once, because the assembler takes a minute for each.
build_gpu_tests() {
  local kind job failed=no
  local -a jobs=()
  link_gpu_tests "$1" tests/cuda/launches.cu build/gpu/launch_tests &
  jobs+=($!)
  for kind in "${gpu_kinds[@]}"; do
    link_gpu_tests "$1" tests/cuda/device_tests.cu "build/gpu/device_tests_$kind" \
      "-DFERRY_TEST_KIND=$kind" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=yes; done
  [[ $failed == no ]] || setup_die "the device tests do not compile for this GPU"
}

# NVCC SOURCE PROGRAM [OPTION...]
link_gpu_tests() {
  compile_cuda "$1" "$2" "$3" -arch=native "${@:4}" \
    build/release/libferry.a -luring -ldl -lgtest -lgtest_main
}

# TOOL PROGRAM FILTER: in quick depth.
sanitize() {
  FERRY_TEST_DEPTH=quick compute-sanitizer --tool "$1" --error-exitcode 1 "$2" \
    --gtest_brief=1 "--gtest_filter=$3" || setup_die "$1 found the above"
}

# C++ tests, built for aarch64 by a cross compiler and run by QEMU's user emulation.
stage_aarch64() {
  local folder=.ferry/aarch64 packages
  setup_packages aarch64 ||
    setup_die "the packages of scripts/packages-aarch64.txt are missing; install them"
  packages=$(setup_words scripts/packages-aarch64-target.txt | paste -sd,)
  if [[ ! -e $folder/complete || $(<"$folder/complete") != "$packages" ]]; then
    rm -rf "$folder"
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" bookworm "$folder" ||
      setup_die "the headers and libraries of aarch64 could not be put into $folder"
    printf '%s\n' "$packages" >"$folder/complete"
  fi
  setup_build aarch64
  # Left out is what this emulation cannot show: the kernel's io_uring, cachestat and robust futexes,
  # and so the daemon; /proc/self, which is the emulator's; and that a store with release and a load
  # with acquire behind it stay in order (ARM's STLR and LDAR), which QEMU does not keep on x86-64, and
  # by which threads that go to sleep do not miss who wakes them.
  emulate base '*'
  emulate backend '*'
  emulate bulk '*-*Explains*:*TasksOfCopies*:Residency*:BulkPlan.Looks*'
  emulate device '*-*ReaderAndTakerDoNotMiss*/OfReaders:RingThreads*'
  emulate server '*'
  emulate transitions '*'
  emulate faults '*'
  emulate programs '*'
}

# ROOM FILTER
emulate() {
  printf 'aarch64: %s_tests\n' "$1"
  FERRY_PROFILE='' FERRY_TEST_DEPTH=quick timeout 900 \
    qemu-aarch64-static -L .ferry/aarch64 "build/aarch64/$1_tests" --gtest_brief=1 "--gtest_filter=$2" ||
    setup_die "$1_tests failed under emulation, or did not end within 900 s"
}

stage_model() {
  case $depth in
    quick) verification/run --quick ;;
    deep) verification/run --all ;;
    *) verification/run ;;
  esac
}

# Remote storages, on servers that the rigs start. A rig that does not start fails the stage.
stage_storages() {
  local report nfs status=0
  if ((EUID != 0)) || ! unshare --mount true 2>/dev/null; then
    setup_say "absent: rigs need root and mount namespaces, which are not to be had here: no server"
    setup_say "is started, and neither NFS nor CephFS is tested"
    return
  fi
  setup_packages rigs || setup_die "the packages of scripts/packages-rigs.txt are missing; install them"
  setup_build release-tests
  unset PYTHONHOME
  export FERRY_TEST_RIG=$root/rigs/rig PYTHONPATH=$root/python:$root/lab FERRY_BUILD_DIR=$root/build/release
  # Running rigs stay up and keep their files.
  trap stop_rigs EXIT
  start_rig nfs
  export FERRY_TEST_NFS=$rig_uri FERRY_TEST_NFS_DIRECTORY=$root/.ferry/rig/nfs/export
  test_on_mocks
  test_on_ceph
  # Side by side: both wait for servers that hang, most of their time.
  report=$(mktemp)
  set -m # a group of its own, which can be ended as one
  (
    unset FERRY_TEST_CEPH FERRY_TEST_CEPH_DIRECTORY
    test_on_nfs
  ) </dev/null >"$report" 2>&1 &
  nfs=$!
  set +m
  # shellcheck disable=SC2064 # these values
  trap "end_of_nfs $nfs '$report'; stop_rigs" EXIT
  test_on_failing_ceph
  wait "$nfs" || status=$?
  return "$status"
}

# PID REPORT: prints what the tests of NFS printed, and ends them if they still run.
end_of_nfs() {
  if kill -- "-$1" 2>/dev/null; then
    wait "$1" || true
    printf 'the tests of NFS were stopped before their end\n' >>"$2"
  fi
  cat "$2"
  rm -f "$2"
}

# Storages without Debian packages are tested on the mocks in tests/mocks.
test_on_mocks() {
  printf 'absent: a real PVFS2 or OrangeFS, and a real Lustre; mocks of libpvfs2 and liblustreapi are used\n'
  steadily timeout 300 build/release/storage_tests --gtest_brief=1 --gtest_filter='Pvfs2Mock*:Pvfs2Lib*:Lustre*' ||
    setup_die "tests on the mocks of libpvfs2 and liblustreapi failed, or did not end within 300 s"
  pytest_steadily tests/python/test_storage_mocks.py
}

rigs_to_stop=()

# NAME [OPTION...]: starts the rig and prints its URI; stops it at the end unless it ran before.
start_rig() {
  if ! rigs/rig status | grep -q "^$1 *up"; then rigs_to_stop+=("$1"); fi
  rig_uri=$(rigs/rig up "$@") || setup_die "the rig $1 did not come up, so its storage is not tested"
}

stop_rigs() {
  local name
  for name in "${rigs_to_stop[@]}"; do rigs/rig down "$name"; done
}

test_on_nfs() {
  steadily build/release/storage_tests --gtest_brief=1 --gtest_filter='Nfs*'
  steadily build/release/runtime_tests --gtest_brief=1 --gtest_filter='*Nfs*'
  steadily build/release/bulk_tests --gtest_brief=1 --gtest_filter='*Nfs*'
  steadily build/release/setup_faults_tests --gtest_brief=1 --gtest_filter='NfsServer*'
  steadily build/release/histories_tests --gtest_brief=1 --gtest_filter='*Served*NFS*'
  pytest_steadily tests/python/test_remote_storages.py
  pytest_steadily lab/tests/run/test_remote_bench.py
  steadily build/release/programs_tests --gtest_brief=1 --gtest_filter='*StoredFiles*'
  steadily timeout --foreground 120 build/release/fuse_tests --gtest_brief=1 --gtest_filter='*/Nfs' ||
    setup_die "programs on mapped folders of NFS failed, or did not end within 120 s"
  steadily build/release/hdf5_tests --gtest_brief=1 --gtest_filter='*/NFS'
  pytest_steadily tests/python/test_unchanged_programs.py tests/python/test_mpi_io.py tests/python/test_hdf5.py -k NFS
  if [[ -x build/release/ferry-checkpoint ]]; then
    test_recorded_ranks NFS
    FERRY_PROFILE='' tests/examples/checkpoint_remote_test.sh build/release/ferry-checkpoint "$FERRY_TEST_NFS" mpiexec -n
  else
    printf 'absent: collective I/O, which needs an MPI library\n'
  fi
}

# SERVER: what ranks and plain calls find there of each other's writes.
test_recorded_ranks() {
  FERRY_PROFILE='' steadily timeout 120 mpiexec -n 2 build/release/collective_mpi_tests --gtest_brief=1 \
    "--gtest_filter=*RecordedRanks*/$1" ||
    setup_die "histories of ranks on $1 broke a promise, or did not end within 120 s"
}

# In memory, which is three times faster. The kernel waits for ceph-fuse without a bound, so this test
# does not.
test_on_ceph() {
  start_rig ceph --mount
  export FERRY_TEST_CEPH=$rig_uri FERRY_TEST_CEPH_DIRECTORY=$root/.ferry/rig/ceph/mount
  steadily timeout 300 build/release/storage_tests --gtest_brief=1 --gtest_filter='Ceph/*' ||
    setup_die "the conformance suite failed on CephFS, or did not end within 300 s"
  steadily timeout 300 build/release/runtime_tests --gtest_brief=1 --gtest_filter='*Ceph*' ||
    setup_die "device calls failed on CephFS, or did not end within 300 s"
  pytest_steadily tests/python/test_rig_network.py
  pytest_steadily tests/python/test_ceph.py lab/tests/studies/test_storages_network.py
  pytest_steadily lab/tests/run/test_remote_bench.py -k CEPH
  steadily timeout 300 build/release/histories_tests --gtest_brief=1 --gtest_filter='*Served*CEPH*' ||
    setup_die "histories of CephFS broke a promise, or did not end within 300 s"
  if [[ -x build/release/ferry-checkpoint ]]; then test_recorded_ranks CEPH; fi
  steadily timeout 60 build/release/programs_tests --gtest_brief=1 --gtest_filter='*StoredFiles*' ||
    setup_die "files of CephFS beside those that are measured failed, or did not end within 60 s"
  steadily timeout 120 build/release/fuse_tests --gtest_brief=1 --gtest_filter='*/Ceph' ||
    setup_die "programs on mapped folders of CephFS failed, or did not end within 120 s"
  steadily timeout 120 build/release/hdf5_tests --gtest_brief=1 --gtest_filter='*/CEPH' ||
    setup_die "HDF5's driver failed on CephFS, or did not end within 120 s"
  pytest_steadily tests/python/test_unchanged_programs.py tests/python/test_mpi_io.py tests/python/test_hdf5.py -k CEPH
}

# In files, on a separate cluster: tests that mistreat its servers.
test_on_failing_ceph() {
  if [[ " ${rigs_to_stop[*]} " != *' ceph '* ]]; then
    printf 'absent: servers that hang or are killed, because the rig ceph was up before and is left alone\n'
    return
  fi
  rigs/rig down ceph
  rigs/rig up ceph --disk --mount >/dev/null || setup_die "the rig ceph --disk --mount did not come up"
  FERRY_TEST_CEPH_DISK=1 steadily timeout 600 build/release/storage_tests --gtest_brief=1 \
    --gtest_filter='CephFaults*:CephKills*:CephEviction*:CephMountEviction*' ||
    setup_die "tests of Ceph's servers that hang or are killed failed, or did not end within 600 s"
  FERRY_TEST_CEPH_DISK=1 pytest_steadily tests/python/test_mpi_io.py -k osds_that_fail
}

stage_install() {
  setup_build release
  tests/install/run
}

# Debian's packages, in roots of their own.
stage_packages() {
  setup_packages packages ||
    setup_die "the packages of scripts/packages-packages.txt are missing; install them"
  tests/packages/run
}

# The wheels of the Python package, in roots of their own.
stage_wheels() {
  setup_packages wheels-test ||
    setup_die "the packages of scripts/packages-wheels-test.txt are missing; install them"
  tests/wheels/run
}

stage_docs() { scripts/docs.sh; }

stage_format() {
  local -a files
  mapfile -t files < <(scripts/sources.sh)
  ((${#files[@]} > 0)) || setup_die "no C++ files were found to check"
  "$setup_venv/bin/clang-format" --dry-run -Werror "${files[@]}" || setup_die "the layout differs; make format mends it"
  printf '%d files are laid out right\n' "${#files[@]}"
  "$setup_python" scripts/check_tree.py
  "$setup_venv/bin/ruff" format --quiet --check --cache-dir .ferry/ruff ||
    setup_die "the layout of Python files differs; make format mends it"
  "$setup_venv/bin/ruff" check --quiet --cache-dir .ferry/ruff || setup_die "ruff found the above"
  "$setup_venv/bin/mypy" --no-error-summary || setup_die "mypy found the above"
  printf 'ruff and mypy found nothing\n'
}

# Reads the sources in the batches that they are built in, which takes a third of the time.
stage_tidy() {
  local here
  here=$(in_pattern "$root")
  setup_is_configured release || setup_configure release # writes the compile commands
  run-clang-tidy -quiet -p build/release "^$here/(build/release/(CMakeFiles|src)/.*|src/.*\.cpp)$" 2>&1 |
    plain || setup_die "clang-tidy found the above"
  # No test builds the benchmarks: whether they compile.
  run-clang-tidy -quiet -p build/release -checks='-*,clang-diagnostic-*,misc-unused-using-decls' "^$here/lab/micro/.*\.cpp$" 2>&1 |
    plain || setup_die "a benchmark does not compile"
}

# PATH: as part of a pattern that matches whole paths.
in_pattern() { printf '%s' "$1" | sed 's/[][(){}.*+?^$|\\]/\\&/g'; }

# run-clang-tidy always uses colours, counts findings it hides, and prints every command.
plain() {
  local colours=()
  if [[ ! -t 1 ]]; then colours=(-e $'s/\x1b\\[[0-9;]*m//g'); fi
  sed -u "${colours[@]}" -e '/^[0-9]* warnings* generated\.$/d' -e '/^clang-tidy[-0-9]* /d'
}

if [[ $# != 1 || $(type -t "stage_$1") != function ]]; then
  printf 'usage: scripts/stage.sh STAGE; ./test --help lists them\n' >&2
  exit 2
fi
"stage_$1"
