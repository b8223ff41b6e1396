// A process is killed at a random moment: what Ferry had handed over to the kernel by then is in
// the file, and every other byte comes from a write that had begun.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "crash/killed_writes.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"

namespace ferry::test {
namespace {

// Until somebody ends it.
void write_on(const KilledSetup& setup, const std::string& path, const KilledWrites& writes,
              KilledProgress& progress) {
  Runtime runtime(cached_options(setup.cache_pages, setup.placement));
  runtime.run([&](DeviceThread& self) {
    auto& files = self.files;
    const int flags = O_RDWR | O_CREAT | setup.flags;
    int file = files.open(path.c_str(), flags, 0644);
    for (std::uint64_t write = 1; file > 0; ++write) {
      const std::string data = writes.data(write);
      progress.begun = write;
      const std::size_t offset = writes.slot(write) * KilledWrites::slot_bytes;
      if (files.pwrite(file, data.data(), data.size(), static_cast<std::int64_t>(offset)) !=
          static_cast<std::int64_t>(data.size()))
        break;
      const std::uint64_t what = writes.mix(~write) % 64;
      int error = 0;
      bool keeps = setup.cache_pages == 0;
      if (what < 8) {
        error = what == 0 ? files.fsync(file) : files.flush(file);
        keeps = true;
      } else if (what < 10) {
        error = files.close(file);
        if (error == 0) progress.kept = write;
        file = files.open(path.c_str(), flags, 0644);
      }
      if (error != 0) break;
      if (keeps) progress.kept = write;
    }
  });
}

class Killed : public testing::TestWithParam<KilledSetup> {};

TEST_P(Killed, LeavesWhatWasHandedOver) {
  const std::uint64_t kills = is_deep() && !sanitized ? 2500 : 12;
  Random random;
  const ScratchDirectory directory(build_folder());
  void* memory = mmap(nullptr, sizeof(KilledProgress), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::uint64_t written = 0;
  std::uint64_t kept = 0;
  for (std::uint64_t kill_number = 0; kill_number < kills; ++kill_number) {
    auto& progress = *new (memory) KilledProgress;
    const KilledWrites writes{random.bits()};
    const std::string path = directory / std::to_string(kill_number);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(100);
      write_on(GetParam(), path, writes, progress);
      _exit(1);  // something failed
    }
    const std::uint64_t first = random.between(1, 40);
    ASSERT_TRUE(eventually([&] { return progress.begun >= first; }));
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "a call failed, or it ended by itself: status " << status;
    ASSERT_EQ(look_at_killed(path, writes, progress), "") << "kill " << kill_number;
    written += progress.begun;
    kept += progress.kept;
    ASSERT_EQ(unlink(path.c_str()), 0);
  }
  EXPECT_GT(kept, 0U);
  std::cout << kills << " kills, " << written << " writes begun, " << kept << " kept\n";
  munmap(memory, sizeof(KilledProgress));
}

TEST(KilledFile, MissesNoByteUnnoticedAndHasNoneBehind) {
  const ScratchDirectory directory(build_folder());
  const KilledWrites writes{7};
  KilledProgress progress;
  std::string bytes(KilledWrites::slots * KilledWrites::slot_bytes, '\0');
  for (std::uint64_t write = 1; write <= 20; ++write)
    bytes.replace(writes.slot(write) * KilledWrites::slot_bytes, KilledWrites::slot_bytes,
                  writes.data(write));
  bytes.resize(bytes.find_last_not_of('\0') + 1);  // where a write ends
  progress.begun = 20;
  progress.kept = 18;
  const std::string path = directory / "file";
  write_file(path, bytes);
  EXPECT_EQ(look_at_killed(path, writes, progress), "");
  write_file(path, bytes + '\0');
  EXPECT_NE(look_at_killed(path, writes, progress), "") << "no write ends there";
  bytes[writes.slot(18) * KilledWrites::slot_bytes + 5] = '\0';
  write_file(path, bytes);
  EXPECT_NE(look_at_killed(path, writes, progress), "");
}

INSTANTIATE_TEST_SUITE_P(Setups, Killed,
                         testing::Values(KilledSetup{"Host", device::Placement::host, 0},
                                         KilledSetup{"Compute", device::Placement::compute, 32},
                                         KilledSetup{"ComputeFewPages", device::Placement::compute,
                                                     6},
                                         KilledSetup{"Service", device::Placement::service, 32}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace ferry::test
