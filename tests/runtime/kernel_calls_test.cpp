// Random calls (support/random_calls.hpp) of threads and of groups of lanes, on the `cpu` device
// and on a mock GPU.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/ferry.hpp>
#include <ferry/gpu.hpp>

#include "support/files.hpp"
#include "support/kernel_threads.hpp"
#include "support/random_calls_host.hpp"

namespace ferry {
namespace {

constexpr std::uint32_t groups = 3;

// `address` says where a thread finds device memory.
template <class Kind, class Runtime, class Address>
void expect_random_calls_to_agree(Runtime& runtime, const device::Context& context,
                                  Address address) {
  const test::ScratchDirectory directory;
  test::Random random;
  test::RandomFiles files(groups);
  std::vector<Buffer> inside;
  for (std::uint32_t i = 0; i < groups; ++i) {
    const std::string path = directory / std::to_string(i);
    inside.push_back(runtime.allocate(test::calls_memory_bytes));
    files.add(path, path, address(inside[i].template as<unsigned char>()), random.fork(), true);
  }
  // A call of many lanes costs as many switches between threads as it has barriers for each.
  const std::uint64_t calls = test::scaled(Kind::lanes == 1 ? 3000 : 600 / Kind::lanes);
  EXPECT_EQ(
      test::make_random_calls(files, &context, calls,
                              [](const auto& program) { test::run_groups<Kind>(groups, program); }),
      "");
}

template <class Kind>
class KernelCalls : public testing::Test {};
using Kinds = testing::Types<test::Threads, test::Parts, test::Warps>;
TYPED_TEST_SUITE(KernelCalls, Kinds);

TYPED_TEST(KernelCalls, OnTheCpu) {
  Runtime runtime(test::small_runtime(groups, 8 << 20));
  expect_random_calls_to_agree<TypeParam>(runtime, runtime.context(),
                                          [](unsigned char* memory) { return memory; });
}

TYPED_TEST(KernelCalls, OnAMockGpu) {
  GpuOptions gpu = test::small_gpu();
  gpu.calls_per_group = 64;  // batches need one for each of their transfers
  GpuRuntime runtime(test::small_runtime(groups, 8 << 20), gpu);
  const test::KernelThreads kernel(runtime);
  expect_random_calls_to_agree<TypeParam>(
      runtime, kernel.context(), [&](unsigned char* memory) { return kernel.address(memory); });
  EXPECT_EQ(runtime.dirty_pages(), 0U);
}

}  // namespace
}  // namespace ferry
