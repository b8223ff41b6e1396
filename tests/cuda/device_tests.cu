// The tests of device programs, in kernels of one kind of group: -DFERRY_TEST_KIND=Threads, Parts,
// Warps or Blocks. ./test --device cuda builds and runs all of them; without a GPU one is compiled.
#include "device/copy_test.cpp"
#include "device/ring_groups_test.cpp"
#include "device/waits_end_test.cpp"
#include "runtime/group_calls_test.cpp"
#include "runtime/kernel_calls_test.cpp"
