// CPUs are taken from a process while its device works, and given back: calls go on, and nothing is
// lost.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <ferry/ferry.hpp>

#include "base/cpus.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"

namespace ferry::fewer_cpus_test {
namespace {

// As `taskset -ap` and cpusets do it: for every thread there is.
void confine(const CpuSet& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus)
    CPU_SET(static_cast<std::size_t>(cpu), &mask);
  std::error_code gone;  // threads end meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone))
    sched_setaffinity(std::stoi(task.path().filename()), sizeof mask, &mask);
}

class FewerCpus : public test::OnRuntime {
 protected:
  // Each thread writes and reads back pieces of its own.
  void work(const std::string& path) {
    on_all([&](DeviceThread& self) {
      constexpr std::size_t bytes = 20'000;
      const int file = self.files.open(path.c_str(), O_RDWR);
      ASSERT_GT(file, 0);
      const auto offset = static_cast<std::int64_t>(self.index * bytes);
      for (std::uint64_t round = 0; round < test::scaled(300); ++round) {
        const std::string data = test::pattern(bytes, round * 8 + self.index);
        ASSERT_EQ(self.files.pwrite(file, data.data(), bytes, offset), std::ssize(data));
        if (round % 16 == 0) {
          ASSERT_EQ(self.files.flush(file), 0);
        }
        ASSERT_TRUE(test::same_bytes(test::read_at(self.files, file, bytes, offset), data));
      }
      ASSERT_EQ(self.files.close(file), 0);
    });
  }
};

TEST_P(FewerCpus, AreEnough) {
  const CpuSet all = allowed_cpus();
  const test::ScratchDirectory directory;
  const std::string path = directory / "f";
  test::write_file(path, std::string(100'000, '\0'));
  std::atomic<bool> ended{false};
  std::jthread taker([&] {
    for (std::size_t turn = 0; !ended; ++turn) {
      confine(turn % 3 == 2 ? all : CpuSet{all[turn % all.size()]});
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    confine(all);
  });
  work(path);
  confine({all.front()});
  work(path);
  ended = true;
  taker.join();
  const ShutdownReport report = runtime->shutdown(test::patience);
  test::expect_good_end(report);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FewerCpus,
                         testing::Values(test::Shape{"uring", StorageEngine::io_uring, 2, 1},
                                         test::Shape{"threads", StorageEngine::threads, 2, 2},
                                         test::Shape{"cached", StorageEngine::automatic, 4, 2, 3,
                                                     false, 24, 0, device::Placement::compute},
                                         test::Shape{"service", StorageEngine::automatic, 2, 1, 0,
                                                     false, 24, 1, device::Placement::service}),
                         test::shape_name);

}  // namespace
}  // namespace ferry::fewer_cpus_test
