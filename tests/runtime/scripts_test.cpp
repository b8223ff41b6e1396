// The device program of script.hpp on threads and on groups of lanes, on the `cpu` device and on a
// mock GPU. tests/cuda/scripts.cu runs the same on a real one.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/ferry.hpp>
#include <ferry/gpu.hpp>

#include "devices/cpu/lanes.hpp"
#include "support/files.hpp"
#include "support/kernel_threads.hpp"
#include "support/script_model.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using test::Outcome;
using test::ScriptPlan;

constexpr std::uint32_t groups = 3;

// Runs a script on each of the groups, by threads; `address` says where a thread finds device
// memory.
template <class Runtime, class Address>
void run_scripts(Runtime& runtime, const device::Context& context, Address address,
                 std::uint32_t lanes) {
  const test::ScratchDirectory directory;
  test::Random random;
  std::vector<ScriptPlan> plans;
  std::vector<std::vector<Outcome>> outcomes(groups);
  std::vector<std::uint64_t> sums(groups);
  std::vector<Buffer> buffers;
  for (std::uint32_t i = 0; i < groups; ++i) {
    plans.push_back(test::make_script(random, test::scaled(lanes > 1 ? 150 : 1500)));
    outcomes[i].resize(plans[i].expected.size());
    buffers.push_back(runtime.allocate(test::script_buffer_bytes));
  }
  const auto run_group = [&](std::uint32_t index) {
    const std::string path = directory / std::to_string(index);
    const test::Script script{path.c_str(),
                              plans[index].steps.data(),
                              static_cast<std::uint32_t>(plans[index].steps.size()),
                              address(buffers[index].template as<unsigned char>()),
                              outcomes[index].data(),
                              &sums[index]};
    if (lanes == 1) return test::run_script(context, device::ThreadGroup{}, index, script);
    cpu::run_lanes(lanes,
                   [&](cpu::LaneGroup group) { test::run_script(context, group, index, script); });
  };
  test::within_patience("the scripts", [&] {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < groups; ++i)
      threads.emplace_back(run_group, i);
    for (std::thread& thread : threads)
      thread.join();
  });
  for (std::uint32_t i = 0; i < groups; ++i) {
    EXPECT_EQ(test::compare(plans[i], outcomes[i]), "") << "group " << i;
    EXPECT_TRUE(test::same_bytes(test::read_file(directory / std::to_string(i)), plans[i].file));
  }
}

class Scripts : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Scripts, OnTheCpu) {
  Runtime runtime(test::small_runtime(groups, 4 << 20));
  run_scripts(
      runtime, runtime.context(), [](unsigned char* memory) { return memory; }, GetParam());
}

TEST_P(Scripts, OnAMockGpu) {
  GpuRuntime runtime(test::small_runtime(groups, 4 << 20), test::small_gpu());
  const test::KernelThreads kernel(runtime);
  run_scripts(
      runtime, kernel.context(), [&](unsigned char* memory) { return kernel.address(memory); },
      GetParam());
  EXPECT_EQ(runtime.dirty_pages(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Lanes, Scripts, testing::Values(1U, 8U, 32U));

}  // namespace
}  // namespace ferry
