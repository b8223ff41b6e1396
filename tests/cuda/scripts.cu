// The device program of support/script.hpp in kernels: on threads, parts of warps, warps and blocks
// of a GPU. ./test --device cuda builds and runs it; without a GPU it is only compiled.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/cuda.hpp>

#include "support/files.hpp"
#include "support/script_model.hpp"

namespace ferry {
namespace {

using device::Context;
using test::Outcome;
using test::Script;
using test::ScriptPlan;

template <class Group>
struct Placing {
  __device__ static std::uint32_t index() { return Group::index_in_grid(); }
};
template <>
struct Placing<device::ThreadGroup> {
  __device__ static std::uint32_t index() { return device::thread_in_grid(); }
};

template <class Group>
__global__ void run_scripts(const Context* context, const Script* scripts, std::uint32_t count) {
  const std::uint32_t index = Placing<Group>::index();
  if (index < count) test::run_script(*context, Group{}, index, scripts[index]);
}

// Memory that the host fills and reads and kernels work on.
template <class T>
class Managed {
 public:
  explicit Managed(std::size_t count) : count_(count) {
    gpu::check(cudaMallocManaged(&data_, count * sizeof(T)), "cudaMallocManaged");
    for (std::size_t i = 0; i < count; ++i)
      new (data_ + i) T{};
  }
  ~Managed() { cudaFree(data_); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  T* data() const { return data_; }
  std::vector<T> copy() const { return std::vector<T>(data_, data_ + count_); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

RuntimeOptions options() {
  RuntimeOptions made;
  made.arena_bytes = 16 << 20;
  made.cache_bytes = 256 * 4096;
  made.page_bytes = 4096;
  made.files_max = 64;
  return made;
}

// What one group's script lies in.
struct Job {
  Job(const ScriptPlan& plan, const std::string& file, GpuRuntime& runtime)
      : path(file.size() + 1),
        steps(plan.steps.size()),
        outcomes(plan.expected.size()),
        sum(1),
        buffer(runtime.allocate(test::script_buffer_bytes)) {
    file.copy(path.data(), file.size());
    std::copy(plan.steps.begin(), plan.steps.end(), steps.data());
  }
  Script script(std::size_t count) const {
    return Script{path.data(),
                  steps.data(),
                  static_cast<std::uint32_t>(count),
                  buffer.as<unsigned char>(),
                  outcomes.data(),
                  sum.data()};
  }

  Managed<char> path;
  Managed<test::Step> steps;
  Managed<Outcome> outcomes;
  Managed<std::uint64_t> sum;
  Buffer buffer;
};

// `groups` groups of `lanes` threads, in blocks of `threads`.
template <class Group>
void expect_scripts_to_agree(std::uint32_t groups, std::uint32_t lanes, std::uint32_t threads) {
  GpuRuntime runtime(options());
  const test::ScratchDirectory directory;
  test::Random random;
  std::vector<ScriptPlan> plans;
  std::vector<std::unique_ptr<Job>> jobs;
  const Managed<Script> scripts(groups);
  for (std::uint32_t i = 0; i < groups; ++i) {
    plans.push_back(test::make_script(random, test::scaled(200)));
    jobs.push_back(std::make_unique<Job>(plans[i], directory / std::to_string(i), runtime));
    scripts.data()[i] = jobs[i]->script(plans[i].steps.size());
  }
  const std::uint32_t blocks = (groups * lanes + threads - 1) / threads;
  run_scripts<Group><<<blocks, threads>>>(runtime.context(), scripts.data(), groups);
  gpu::check(cudaGetLastError(), "the launch");
  gpu::check(cudaDeviceSynchronize(), "the kernel");
  for (std::uint32_t i = 0; i < groups; ++i) {
    EXPECT_EQ(test::compare(plans[i], jobs[i]->outcomes.copy()), "") << "group " << i;
    EXPECT_TRUE(test::same_bytes(test::read_file(directory / std::to_string(i)), plans[i].file));
  }
  EXPECT_EQ(runtime.dirty_pages(), 0U);
  EXPECT_TRUE(runtime.shutdown(std::chrono::seconds(10)).errors.empty());
}

TEST(CudaScripts, OfThreads) {
  expect_scripts_to_agree<device::ThreadGroup>(16, 1, 8);
}
TEST(CudaScripts, OfPartsOfWarps) {
  expect_scripts_to_agree<device::TileGroup<8>>(16, 8, 64);
}
TEST(CudaScripts, OfWarps) {
  expect_scripts_to_agree<device::WarpGroup>(16, 32, 64);
}
TEST(CudaScripts, OfBlocks) {
  expect_scripts_to_agree<device::BlockGroup>(8, 128, 128);
}

struct RunScripts {
  const Script* scripts;
  std::uint32_t count;
  __device__ void operator()(const Context* context, unsigned block, unsigned) const {
    if (block < count) test::run_script(*context, device::BlockGroup{}, block, scripts[block]);
  }
};

TEST(CudaScripts, WithServices) {
  GpuOptions gpu;
  gpu.services = 2;
  GpuRuntime runtime(options(), gpu);
  const test::ScratchDirectory directory;
  test::Random random;
  const ScriptPlan plan = test::make_script(random, test::scaled(200));
  const Job job(plan, directory / "file", runtime);
  const Managed<Script> script(1);
  script.data()[0] = job.script(plan.steps.size());
  gpu::launch_with_services(runtime, 1, 64, RunScripts{script.data(), 1});
  EXPECT_EQ(test::compare(plan, job.outcomes.copy()), "");
  EXPECT_GT(runtime.statistics().served_calls, 0U);
  EXPECT_THROW(gpu::launch_with_services(runtime, 1U << 20, 64, RunScripts{script.data(), 1}),
               Error);
}

__global__ void leave_dirty(const Context* context, const char* path, char* buffer, int* result) {
  device::FileCalls files(*context, device::WarpGroup{}, 0);
  files.use(device::Placement::compute);
  const int file = files.open(path, test::script_open_flags, 0644);
  const std::int64_t written = files.pwrite(file, buffer, 5000, 0);
  if (device::WarpGroup::lane() == 0) *result = static_cast<int>(written);
}

TEST(CudaScripts, WriteBackWhatAKernelLeft) {
  GpuRuntime runtime(options());
  const test::ScratchDirectory directory;
  const std::string path = directory / "file";
  const Managed<char> name(path.size() + 1);
  path.copy(name.data(), path.size());
  const Managed<char> bytes(5000);
  const std::string text = test::pattern(5000, 3);
  text.copy(bytes.data(), text.size());
  const Managed<int> result(1);
  leave_dirty<<<1, 32>>>(runtime.context(), name.data(), bytes.data(), result.data());
  gpu::check(cudaDeviceSynchronize(), "the kernel");
  EXPECT_EQ(*result.data(), 5000);
  EXPECT_GT(runtime.dirty_pages(), 0U);
  EXPECT_EQ(gpu::write_back(runtime), 0);
  EXPECT_EQ(runtime.dirty_pages(), 0U);
  EXPECT_EQ(test::read_file(path), text);
}

}  // namespace
}  // namespace ferry
