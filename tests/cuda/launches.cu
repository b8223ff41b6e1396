// Launches of the library's own kernels, which need a real GPU: ./test --device cuda builds and
// runs this; otherwise it is only compiled.
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/cuda.hpp>

#include "support/files.hpp"
#include "support/programs.hpp"
#include "support/small_runtimes.hpp"

namespace ferry {
namespace {

using device::Context;

constexpr std::uint64_t bytes = 5000;

// Writes through the page cache, and does not close the file.
struct LeaveDirty {
  const Context* context;
  const char* path;
  const char* data;
  test::Checks checks;

  template <class Group>
  __device__ void operator()(Group group, std::uint32_t index) const {
    device::FileCalls files(*context, group, index);
    files.use(device::Placement::compute);
    const int file = files.open(path, O_RDWR | O_CREAT, 0644);
    checks.equal(files.pwrite(file, data, bytes, 0), bytes);
  }
};

TEST(Launches, WriteBackWhatAKernelLeft) {
  GpuRuntime runtime(test::small_runtime(1, 4 << 20), test::small_gpu());
  const test::ScratchDirectory directory;
  const std::string path = directory / "file";
  const std::string text = test::pattern(bytes, 3);
  const test::SharedArray<char> name(path.size() + 1);
  path.copy(name.data(), path.size());
  const test::SharedArray<char> data(bytes);
  text.copy(data.data(), text.size());
  const test::ProgramReport report;
  test::run_groups<test::Warps>(
      1, LeaveDirty{runtime.context(), name.data(), data.data(), report.checks()});
  EXPECT_EQ(report.text(), "");
  EXPECT_GT(runtime.dirty_pages(), 0U);
  EXPECT_EQ(gpu::write_back(runtime), 0);
  EXPECT_EQ(runtime.dirty_pages(), 0U);
  EXPECT_EQ(test::read_file(path), text);
}

// Every tile reads a row of its own, whatever the size of its block.
template <std::uint32_t lanes>
FERRY_KERNEL read_rows(const Context* context, const char* path, char* rows, std::uint32_t* users) {
  using Group = device::TileGroup<lanes>;
  const std::uint32_t index = Group::index_in_grid();
  device::FileCalls files(*context, Group{}, index);
  const int file = files.open(path, O_RDONLY);
  const std::int64_t got = files.pread(file, rows + index * bytes, bytes, index * bytes);
  if (Group::lane() == 0 && got == static_cast<std::int64_t>(bytes)) atomicAdd(&users[index], 1U);
  files.close(file);
}

template <std::uint32_t lanes>
void expect_rows(unsigned blocks, unsigned threads) {
  const std::uint32_t tiles = blocks * device::tiles_in_block(threads, lanes);
  GpuOptions gpu = test::small_gpu();
  gpu.groups = tiles;
  GpuRuntime runtime(test::small_runtime(1, 4 << 20), gpu);
  const test::ScratchDirectory directory;
  const std::string path = directory / "file";
  const std::string text = test::pattern(tiles * bytes, 5);
  test::write_file(path, text);
  const test::SharedArray<char> name(path.size() + 1);
  path.copy(name.data(), path.size());
  const test::SharedArray<char> rows(tiles * bytes);
  const test::SharedArray<std::uint32_t> users(tiles);
  read_rows<lanes><<<blocks, threads>>>(runtime.context(), name.data(), rows.data(), users.data());
  gpu::check(cudaDeviceSynchronize(), "the kernel");
  EXPECT_EQ(std::string(rows.data(), text.size()), text);
  for (std::uint32_t i = 0; i < tiles; ++i)
    EXPECT_EQ(users[i], 1U) << i;
}

TEST(Launches, HaveBlocksThatAreNoMultipleOfTheTile) {
  expect_rows<32>(3, 40);
  expect_rows<32>(3, 33);
  expect_rows<8>(3, 21);
}

struct DoNothing {
  __device__ void operator()(const Context*, unsigned, unsigned) const {}
};

TEST(Launches, WithServicesHaveToFit) {
  GpuOptions gpu = test::small_gpu();
  gpu.services = 2;
  GpuRuntime runtime(test::small_runtime(1, 4 << 20), gpu);
  gpu::launch_with_services(runtime, 1, 64, DoNothing{});
  EXPECT_THROW(gpu::launch_with_services(runtime, 1U << 20, 64, DoNothing{}), Error);
  gpu::launch_with_services(runtime, 1, 64, DoNothing{});
}

TEST(Launches, WithServicesNeedSome) {
  GpuRuntime runtime(test::small_runtime(1, 4 << 20), test::small_gpu());
  EXPECT_THROW(gpu::launch_with_services(runtime, 1, 64, DoNothing{}), Error);
}

}  // namespace
}  // namespace ferry
