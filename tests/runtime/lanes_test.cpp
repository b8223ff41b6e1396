// Groups of 32 emulated lanes: cached and host calls in turn, compared with a plain model.
#include "backend/cpu/lanes.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/ferry.hpp>
#include <ferry/gpu.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/kernel_threads.hpp"
#include "support/small_runtimes.hpp"
#include "support/within.hpp"

namespace ferry::lanes_test {
namespace {

using cpu::LaneGroup;
using device::FileCalls;
using device::IoVector;
using device::Placement;
using test::pattern;
using test::Random;
using test::same_bytes;

constexpr std::uint64_t size_max = 60'000;

RuntimeOptions options(unsigned pages) {
  RuntimeOptions made = test::small_runtime(2, 2 << 20);
  made.cache_bytes = std::uint64_t{4096} * pages;
  return made;
}

// One group on one file. Every lane has the same random numbers, and so makes the same calls.
class Group {
 public:
  Group(const device::Context& context, std::uint32_t index, std::string path, char* arena,
        Random random)
      : context_(context), index_(index), path_(std::move(path)), arena_(arena), random_(random) {}

  void run(std::uint64_t operations) {
    std::array<std::string, cpu::warp_lanes> failures;
    std::string model;
    cpu::run_lanes(cpu::warp_lanes, [&](LaneGroup group) {
      FileCalls files(context_, group, index_);
      work(group, files, operations, group.lane() == 0 ? &model : nullptr, failures[group.lane()]);
    });
    for (const std::string& failure : failures)
      EXPECT_EQ(failure, "");
    EXPECT_TRUE(same_bytes(test::read_file(path_), model));
  }

 private:
  // One lane stores its model in `last`.
  template <class Files>
  void work(const LaneGroup& group, Files& files, std::uint64_t operations, std::string* last,
            std::string& failure) {
    Random random = random_;
    std::string model;
    int file = files.open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    const auto check = [&](const char* call, std::int64_t got, std::int64_t wanted) {
      if (got == wanted || !failure.empty()) return;
      failure =
          std::string(call) + ": " + std::to_string(got) + " instead of " + std::to_string(wanted);
    };
    for (std::uint64_t i = 0; i < operations; ++i) {
      files.use(random.one_in(2) ? Placement::host : Placement::compute);
      const std::uint64_t offset = random.below(size_max / 2);
      const std::uint64_t bytes = random.one_in(4) ? random.below(20'000) : random.below(2000);
      const std::uint64_t seed = random.bits();
      const auto at = static_cast<std::int64_t>(offset);
      // In the arena or not.
      char* memory = (random.one_in(2) ? arena_ : outside_.data()) + random.below(100);
      switch (random.below(9)) {
        case 8:
          rows(group, files, file, random, model, check);
          break;
        case 0: {
          const std::uint64_t size = random.below(size_max);
          check("ftruncate", files.ftruncate(file, static_cast<std::int64_t>(size)), 0);
          model.resize(size, '\0');
          break;
        }
        case 1:
          check("close", files.close(file), 0);
          file = files.open(path_.c_str(), O_RDWR);
          break;
        case 2:
        case 3:
        case 4: {
          const std::string data = pattern(bytes, seed);
          if (group.lane() == 0) std::memcpy(memory, data.data(), bytes);
          group.sync();
          IoVector halves[2] = {{memory, bytes / 2}, {memory + bytes / 2, bytes - bytes / 2}};
          check("a write",
                random.one_in(2) ? files.pwrite(file, memory, bytes, at)
                                 : files.pwritev(file, halves, 2, at),
                static_cast<std::int64_t>(bytes));
          test::write_to(model, data, offset);
          break;
        }
        default: {
          const std::uint64_t there = offset < model.size() ? model.size() - offset : 0;
          const std::uint64_t wanted = std::min(bytes, there);
          auto pending = files.pread_async(file, memory, 0, 0);
          if (random.one_in(2)) {
            pending = files.pread_async(file, memory, bytes, at);
            check("pread_async", files.wait(pending), static_cast<std::int64_t>(wanted));
          } else {
            files.wait(pending);
            check("pread", files.pread(file, memory, bytes, at), static_cast<std::int64_t>(wanted));
          }
          group.sync();
          if (wanted > 0 && model.compare(offset, wanted, memory, wanted) != 0 && failure.empty())
            failure = "the bytes differ at step " + std::to_string(i);
          group.sync();
        }
      }
    }
    check("close", files.close(file), 0);
    if (last != nullptr) *last = std::move(model);
  }

  // Every lane reads a range of its own, some of them in the same page.
  template <class Files, class Check>
  static void rows(const LaneGroup& group, Files& files, int file, Random& random,
                   const std::string& model, Check check) {
    const std::uint64_t base = random.below(size_max);
    const std::uint64_t spread = random.one_in(2) ? 3000 : size_max;
    Random mine(random.bits() + group.lane());
    const std::uint64_t offset = (base + mine.below(spread)) % size_max;
    const std::uint64_t bytes = mine.one_in(20) ? 0 : mine.below(mine.one_in(5) ? 9000 : 300);
    std::string row(bytes, '?');
    const std::uint64_t there = offset < model.size() ? model.size() - offset : 0;
    const std::uint64_t wanted = std::min(bytes, there);
    check("pread_each",
          files.pread_each(file, row.data(), bytes, static_cast<std::int64_t>(offset)),
          static_cast<std::int64_t>(wanted));
    check("a row", wanted == 0 ? 0 : model.compare(offset, wanted, row.data(), wanted), 0);
    group.sync();
  }

  const device::Context& context_;
  const std::uint32_t index_;
  const std::string path_;
  char* const arena_;
  std::vector<char> outside_ = std::vector<char>(30'000);
  const Random random_;
};

class CachedLanes : public testing::TestWithParam<unsigned> {};

// Two groups on a file each; `arena` has 30,000 bytes for either.
void two_groups(const device::Context& context, char* arena) {
  const test::ScratchDirectory directory;
  Random random;
  std::vector<std::unique_ptr<Group>> groups;
  for (std::uint32_t i = 0; i < 2; ++i) {
    groups.push_back(std::make_unique<Group>(context, i, directory / std::to_string(i),
                                             arena + std::size_t{i} * 30'000, random.fork()));
  }
  test::at_once("two groups of lanes", 2,
                [&](std::uint32_t i) { groups[i]->run(test::scaled(400)); });
}

TEST_P(CachedLanes, DoWhatPlainFilesDo) {
  Runtime runtime(options(GetParam()));
  const Buffer arena = runtime.allocate(2 * 30'000);
  two_groups(runtime.context(), arena.as<char>());
}

// The same on memory that the host cannot load, with copies between.
TEST_P(CachedLanes, DoSoOnAGpu) {
  GpuOptions gpu = test::small_gpu();
  gpu.calls_per_group = 64;  // those that are never waited for are among them
  GpuRuntime runtime(options(GetParam()), gpu);
  const test::KernelThreads kernel(runtime);
  const Buffer arena = runtime.allocate(2 * 30'000);
  two_groups(kernel.context(), kernel.address(arena.as<char>()));
  EXPECT_EQ(runtime.dirty_pages(), 0U);
  EXPECT_GT(test::MockCuda::get("copied_bytes"), 0);
}

// Of many pages, a group keeps views in reserve, and its lanes copy what is cached together.
INSTANTIATE_TEST_SUITE_P(Pages, CachedLanes, testing::Values(3U, 60U, 400U));

}  // namespace
}  // namespace ferry::lanes_test
