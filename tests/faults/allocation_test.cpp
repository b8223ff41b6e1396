// Each allocation fails, for every one of a program on a runtime.

#include <cerrno>
#include <cstdint>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "faults/allocations.hpp"
#include "faults/resources.hpp"
#include "faults/runtime_program.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::test {
namespace {

// -EAGAIN: of a thread that could not be started.
bool is_lack_of_memory(int error) {
  return error == ENOMEM || error == EAGAIN;
}

template <class Program>
void fail_each_allocation(const Program& program) {
  if (sanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  const PointsHere not_here(false);
  allocations().arm(never);
  program();  // what is made once for the process
  allocations().disarm();
  const Resources before = resources_now();
  const std::uint64_t points = for_every_point(
      allocations(),
      [&](std::uint64_t n) {
        allocations().arm(n);
        program();
        allocations().disarm();
        expect_resources(before);
      },
      is_deep() ? 1 : 4);
  std::cout << "[  POINTS  ] " << points << '\n';
}

class RuntimeAllocations : public testing::TestWithParam<RuntimeSetup> {};

TEST_P(RuntimeAllocations, EachFailsOnce) {
  const ScratchDirectory scratch(build_folder());
  const ByteSources sources;
  fail_each_allocation([&] {
    run_runtime(GetParam(), scratch / "file", sources, allocations(), is_lack_of_memory);
  });
}

INSTANTIATE_TEST_SUITE_P(, RuntimeAllocations, testing::ValuesIn(runtime_setups()), name_of_setup);

}  // namespace
}  // namespace ferry::test
