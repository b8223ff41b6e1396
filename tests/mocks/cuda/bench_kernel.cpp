// The kernel of `ferry bench --device cuda` on the mock GPU: the same program, with one thread per
// group, or $FERRY_MOCK_LANES threads in step.
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/lanes.hpp"
#include "harness/cuda/kernel_program.hpp"
#include "mocks/cuda/kernels.hpp"
#include "support/played_context.hpp"

namespace ferry::bench {
namespace {

// Moves the pointers of a group to the host's addresses, and back.
void move_pointers(KernelGroup& group, long offset_bytes) {
  const auto move = [&](auto& pointer) {
    if (pointer != nullptr) pointer = test::played_address(pointer, offset_bytes);
  };
  move(group.path);
  move(group.order);
  move(group.buffer);
  move(group.pending);
  move(group.began_ns);
  move(group.latencies);
}

void play_group(const KernelTask& task, std::uint32_t index) {
  const char* wish = std::getenv("FERRY_MOCK_LANES");
  const auto lanes = static_cast<std::uint32_t>(wish != nullptr ? std::stoul(wish) : 1);
  if (lanes == 1) {
    KernelProgram(task, device::ThreadGroup{}, index).run();
    return;
  }
  cpu::run_lanes(lanes, [&](cpu::LaneGroup group) { KernelProgram(task, group, index).run(); });
}

}  // namespace
}  // namespace ferry::bench

extern "C" __attribute__((visibility("default"))) void ferry_bench_kernel(std::uintptr_t parameter,
                                                                          unsigned blocks,
                                                                          long offset_bytes) {
  using namespace ferry;
  bench::KernelTask task =
      *test::played_address(reinterpret_cast<const bench::KernelTask*>(parameter), offset_bytes);
  const device::Context context =
      test::played_context(*test::played_address(task.context, offset_bytes), offset_bytes);
  task.context = &context;
  task.groups = test::played_address(task.groups, offset_bytes);
  std::vector<std::thread> threads;
  for (unsigned block = 0; block < blocks; ++block) {
    const std::uint32_t index = task.first_group + block;
    bench::move_pointers(task.groups[index], offset_bytes);
    threads.emplace_back([&task, index] { bench::play_group(task, index); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (unsigned block = 0; block < blocks; ++block)
    bench::move_pointers(task.groups[task.first_group + block], -offset_bytes);
}
