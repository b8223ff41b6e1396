// The life of a runtime: options, memory, programs, idleness, shutdown.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/in_a_child.hpp"
#include "support/runtimes.hpp"

namespace ferry {
namespace {

using std::chrono::milliseconds;
using test::pattern;
using test::within_patience;
using test::write_file;

RuntimeOptions small_options() {
  RuntimeOptions options;
  options.arena_bytes = 4 << 20;
  options.device_threads = 2;
  options.server_threads = 1;
  return options;
}

// The errno that refuses a runtime with these options; 0 if accepted.
int refused(const RuntimeOptions& options, const char* says = "") {
  return test::error_of([&] { const Runtime runtime(options); }, says);
}

TEST(Options, RefusesWhatCannotBe) {
  RuntimeOptions options = small_options();
  for (const std::uint32_t files : {0U, 65'537U}) {
    options.files_max = files;
    EXPECT_EQ(refused(options, "files_max"), EINVAL);
  }
  options = small_options();
  options.server_threads = 2;
  options.rings = 1;
  EXPECT_EQ(refused(options, "rings"), EINVAL);
  options = small_options();
  for (const unsigned threads : {2'000'000U, 3'000'000'000U, ~0U}) {
    options.device_threads = threads;
    EXPECT_EQ(refused(options, "device_threads"), EINVAL);
  }
  options = small_options();
  options.cache_bytes = 1 << 20;
  options.service_threads = ~0U;
  EXPECT_EQ(refused(options, "service_threads"), EINVAL);
  options.service_threads = 0;
  options.server_threads = ~0U;
  EXPECT_EQ(refused(options, "server_threads"), EINVAL);
  options = small_options();
  options.device_cpus = "nonsense";
  EXPECT_EQ(refused(options, "device_cpus"), EINVAL);
  options = small_options();
  options.server_cpus = "4000";
  EXPECT_EQ(refused(options, "server_cpus"), EINVAL);
}

TEST(Options, RefusesArenasThatCannotBe) {
  RuntimeOptions options = small_options();
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 60, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 4096,
        ~std::uint64_t{0} - (std::uint64_t{1} << 22)}) {
    options.arena_bytes = bytes;
    const int error = refused(options);
    EXPECT_TRUE(error == ENOMEM || error == EINVAL) << bytes << ": " << error;
  }
}

TEST(Options, AcceptsTheExtremes) {
  RuntimeOptions options = small_options();
  options.files_max = 65'536;
  EXPECT_EQ(refused(options), 0);
  options = small_options();
  options.files_max = 1;
  options.arena_bytes = 0;
  EXPECT_EQ(refused(options), 0);
  options = small_options();
  options.device_threads = 20;
  options.server_threads = 3;
  options.rings = 11;
  options.device_spin = std::chrono::microseconds(0);
  options.server_spin = std::chrono::microseconds(0);
  Runtime runtime(options);
  std::atomic<int> good{0};
  within_patience("a program", [&] {
    runtime.run([&](DeviceThread& self) {
      if (self.files.ping() == 0 && self.count == 20) ++good;
    });
  });
  EXPECT_EQ(good, 20);
}

// A cache of 16 GiB keeps 99 % of its memory for pages.
TEST(Options, ManyThreadsAndFilesTakeLittleMemory) {
  const auto bytes_beside = [](unsigned threads, unsigned files) {
    RuntimeOptions options = small_options();
    options.cache_bytes = 4 << 20;
    options.device_threads = threads;
    options.files_max = files;
    return Runtime(options).info().arena_bytes;
  };
  const std::uint64_t few = bytes_beside(1, 1);
  const std::uint64_t many = bytes_beside(4096, 65'536);
  constexpr std::uint64_t cache_bytes = std::uint64_t{16} << 30;
  EXPECT_LT(many - few, cache_bytes / 100) << "in the arena";
}

TEST(Info, TellsWhatIsInForce) {
  RuntimeOptions options = small_options();
  options.engine = StorageEngine::threads;
  const Runtime runtime(options);
  const RuntimeInfo info = runtime.info();
  EXPECT_EQ(info.device_threads, 2U);
  EXPECT_EQ(info.server_threads, 1U);
  EXPECT_EQ(info.storage_engine, "threads");
  EXPECT_GE(info.arena_bytes, options.arena_bytes);
  EXPECT_FALSE(info.arena_pages.empty());
  EXPECT_FALSE(info.notes.empty());
}

TEST(Info, OneCpuIsOversubscribed) {
  const test::Shape shape{"one_cpu", StorageEngine::automatic, 1, 1, 0, true};
  const Runtime runtime(test::options_of(shape));
  EXPECT_TRUE(runtime.info().oversubscribed);
  EXPECT_EQ(runtime.info().device_cpus, runtime.info().server_cpus);
}

TEST(Memory, IsAlignedAndInsideTheArena) {
  Runtime runtime(small_options());
  for (std::uint64_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
    const Buffer buffer = runtime.allocate(100, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0U);
    EXPECT_EQ(buffer.bytes(), 100U);
    EXPECT_TRUE(runtime.context().arena.contains(buffer.data(), 100));
    std::memset(buffer.data(), 1, 100);
  }
}

TEST(Memory, RunsOutWithAnErrorAndComesBack) {
  Runtime runtime(small_options());
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 4; ++i)
      buffers.push_back(runtime.allocate(1 << 20));
    EXPECT_EQ(test::error_of([&] { runtime.allocate(1 << 20); }, "arena_bytes"), ENOMEM);
    buffers[2] = Buffer();
    EXPECT_NO_THROW(buffers[2] = runtime.allocate(1 << 20));
    Buffer moved = std::move(buffers[0]);
    EXPECT_NE(moved.data(), nullptr);
  }
  EXPECT_NO_THROW(runtime.allocate(4 << 20));
  EXPECT_THROW(runtime.allocate(std::numeric_limits<std::uint64_t>::max()), Error);
  EXPECT_NO_THROW(runtime.allocate(0));
}

TEST(Memory, RefusesAlignmentsThatAreNone) {
  Runtime runtime(small_options());
  for (const std::uint64_t alignment : {3UL, 0UL, 12UL})
    EXPECT_EQ(test::error_of([&] { runtime.allocate(64, alignment); }), EINVAL) << alignment;
}

TEST(Programs, RunOnEveryThreadOnce) {
  Runtime runtime(small_options());
  for (int round = 0; round < 10; ++round) {
    std::vector<std::atomic<int>> ran(2);
    runtime.run([&](DeviceThread& self) {
      EXPECT_EQ(self.count, 2U);
      ++ran[self.index];
    });
    EXPECT_EQ(ran[0], 1);
    EXPECT_EQ(ran[1], 1);
  }
}

TEST(Programs, PassOnTheirFirstException) {
  test::ScratchDirectory directory;
  write_file(directory / "f", pattern(1 << 20, 1));
  Runtime runtime(small_options());
  const Buffer buffer = runtime.allocate(1 << 20);
  within_patience("a program that throws", [&] {
    EXPECT_THROW(runtime.run([&](DeviceThread& self) {
      const int file = self.files.open((directory / "f").c_str(), O_RDONLY);
      self.files.pread_async(file, buffer.as<char>() + self.index * 65'536, 65'536, 0);
      if (self.index == 1) throw std::out_of_range("in a program");
    }),
                 std::out_of_range);
  });
  // The transfers left in flight have ended, and the next program works.
  std::memset(buffer.data(), 9, buffer.bytes());
  runtime.run([](DeviceThread& self) { EXPECT_EQ(self.files.ping(), 0); });
  EXPECT_TRUE(test::same_bytes({buffer.as<char>(), 1 << 20}, std::string(1 << 20, 9)));
}

TEST(Programs, TakeTurns) {
  Runtime runtime(small_options());
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  test::at_once("programs of three hosts", 3, [&](std::uint32_t) {
    for (int round = 0; round < 10; ++round) {
      runtime.run([&](DeviceThread& self) {
        if (++inside > 2) overlapped = true;
        self.files.ping();
        --inside;
      });
    }
  });
  EXPECT_FALSE(overlapped);
}

TEST(Programs, MayMakeGroupsOfTheirOwn) {
  Runtime runtime(small_options());
  device::FileCalls<device::ThreadGroup> calls(runtime.context(), device::ThreadGroup{}, 1);
  EXPECT_EQ(calls.ping(), 0);
}

// A stale handle must not disturb the next file in its place: here a read() of the old file is
// still waking up when the new one is opened.
std::atomic<int> parking{0};  // 0 as usual, 1 hold the next that parks, 2 one is held, 3 let go

TEST(Positions, AnOldReadDoesNotMoveTheNextFile) {
  test::ScratchDirectory directory;
  write_file(directory / "old", pattern(100, 1));
  write_file(directory / "new", pattern(100, 2));
  Runtime runtime(small_options());
  device::Context slow = runtime.context();
  slow.wait.spin_ns = 0;
  slow.hooks.park = [](const std::uint32_t*, std::uint32_t, std::uint64_t) {
    int expected = 1;
    if (!parking.compare_exchange_strong(expected, 2)) return;
    while (parking != 3)
      std::this_thread::sleep_for(milliseconds(1));
  };
  device::FileCalls<device::ThreadGroup> reader(slow, device::ThreadGroup{}, 0);
  device::FileCalls<device::ThreadGroup> opener(runtime.context(), device::ThreadGroup{}, 1);
  bool held = false;
  for (int attempt = 0; attempt < 200 && !held; ++attempt) {
    const int file = opener.open((directory / "old").c_str(), O_RDONLY);
    ASSERT_GT(file, 0);
    parking = 1;
    std::atomic<bool> ended{false};
    std::thread old_read([&] {
      char got[50];
      EXPECT_EQ(reader.read(file, got, 50), 50);
      ended = true;
    });
    while (parking == 1 && !ended)
      std::this_thread::yield();
    held = parking == 2;  // else the answer came before it had to sleep: once more
    within_patience("opening a file in the place of another", [&] {
      EXPECT_EQ(opener.close(file), 0);
      std::thread release([&] {
        std::this_thread::sleep_for(milliseconds(held ? 200 : 0));
        parking = 3;
      });
      const int next = opener.open((directory / "new").c_str(), O_RDONLY);
      old_read.join();
      release.join();
      std::string got(100, '\0');
      EXPECT_EQ(opener.read(next, got.data(), 100), 100);
      EXPECT_TRUE(test::same_bytes(got, pattern(100, 2)));
      EXPECT_EQ(opener.close(next), 0);
    });
  }
  if (!held) GTEST_SKIP() << "every answer came before its reader slept";
}

// ---- idleness

TEST(Idle, CostsNextToNothingAndEndsWithTheNextCall) {
  Runtime runtime(small_options());
  runtime.run([](DeviceThread& self) { self.files.ping(); });
  EXPECT_TRUE(test::eventually([&] { return runtime.statistics().server_parks > 0; }));
  const RuntimeStatistics before = runtime.statistics();
  std::this_thread::sleep_for(milliseconds(1000));
  const RuntimeStatistics after = runtime.statistics();
  EXPECT_LT(after.server_cpu_ns - before.server_cpu_ns, 10'000'000U) << "1 % of a second";
  within_patience("a call after idling", [&] {
    runtime.run([](DeviceThread& self) {
      for (int i = 0; i < 100; ++i)
        EXPECT_EQ(self.files.ping(), 0);
    });
  });
  EXPECT_TRUE(
      test::eventually([&] { return runtime.statistics().server_parks > after.server_parks; }));
}

TEST(Idle, WaitingForTheDiskIsNotBusyEither) {
  // No party spins: a call costs only its work.
  RuntimeOptions options = small_options();
  options.server_spin = std::chrono::microseconds(0);
  options.device_spin = std::chrono::microseconds(0);
  Runtime runtime(options);
  within_patience("parked parties", [&] {
    runtime.run([](DeviceThread& self) {
      for (std::uint64_t i = 0; i < test::scaled(5000); ++i)
        ASSERT_EQ(self.files.ping(), 0);
    });
  });
  EXPECT_GT(runtime.statistics().parks, 0U);
  EXPECT_GT(runtime.statistics().doorbells, 0U);
}

TEST(Statistics, AddUp) {
  test::ScratchDirectory directory;
  Runtime runtime(small_options());
  const Buffer buffer = runtime.allocate(8192);
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    const int file = self.files.open((directory / "f").c_str(), O_RDWR | O_CREAT, 0644);
    EXPECT_EQ(self.files.pwrite(file, buffer.data(), 8192, 0), 8192);
    EXPECT_EQ(self.files.pread(file, buffer.data(), 5000, 0), 5000);
    EXPECT_EQ(self.files.pread(file, buffer.data(), 1, -1), -EINVAL);
    EXPECT_EQ(self.files.close(file), 0);
  });
  const RuntimeStatistics statistics = runtime.statistics();
  EXPECT_EQ(statistics.calls, 5U);
  EXPECT_EQ(statistics.batches, 5U);
  EXPECT_EQ(statistics.requests, 5U);
  EXPECT_EQ(statistics.refused_requests, 1U);
  EXPECT_EQ(statistics.bytes_written, 8192U);
  EXPECT_EQ(statistics.bytes_read, 5000U);
  EXPECT_EQ(statistics.staged_calls, 0U);
  EXPECT_EQ(
      statistics.inline_operations + statistics.engine_operations + statistics.pool_operations, 4U);
}

TEST(Statistics, OfTheServerSurviveTheShutdown) {
  Runtime runtime(small_options());
  runtime.run([](DeviceThread& self) {
    for (int i = 0; i < 2000; ++i)
      self.files.ping();
  });
  const RuntimeStatistics before = runtime.statistics();
  runtime.shutdown(test::patience);
  const RuntimeStatistics after = runtime.statistics();
  EXPECT_GE(after.requests, before.requests);
  EXPECT_GT(before.server_cpu_ns, 0U);
  EXPECT_GE(after.server_cpu_ns, before.server_cpu_ns) << "counted since the runtime was made";
}

// ---- shutdown

TEST(Shutdown, EndsCallsAndClosesFiles) {
  test::ScratchDirectory directory;
  Runtime runtime(small_options());
  runtime.run([&](DeviceThread& self) {
    if (self.index == 0) self.files.open((directory / "f").c_str(), O_RDWR | O_CREAT, 0644);
  });
  const ShutdownReport report = runtime.shutdown(test::patience);
  test::expect_good_end(report);
  EXPECT_EQ(report.files_closed, 1U);
  runtime.run([&](DeviceThread& self) {
    char byte = 0;
    EXPECT_EQ(self.files.ping(), -ESHUTDOWN);
    EXPECT_EQ(self.files.open((directory / "f").c_str(), O_RDONLY), -ESHUTDOWN);
    EXPECT_EQ(self.files.read(1 << 16, &byte, 1), -ESHUTDOWN);
    EXPECT_EQ(self.files.write(1 << 16, &byte, 1), -ESHUTDOWN);
  });
  const ShutdownReport again = runtime.shutdown(milliseconds(0));
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.files_closed, 0U);
}

TEST(Shutdown, WhileProgramsRun) {
  test::ScratchDirectory directory;
  write_file(directory / "f", pattern(1 << 20, 1));
  for (std::uint64_t round = 0; round < test::scaled(40); ++round) {
    RuntimeOptions options = small_options();
    options.device_threads = 4;
    options.server_threads = 2;
    Runtime runtime(options);
    const Buffer buffer = runtime.allocate(1 << 20);
    std::atomic<int> wrong{0};
    std::thread host([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 211 % 5000));
      EXPECT_TRUE(runtime.shutdown(test::patience).finished);
    });
    within_patience("programs under shutdown", [&] {
      runtime.run([&](DeviceThread& self) {
        char outside[100];
        char* memory = buffer.as<char>() + self.index * 65'536;
        const int file = self.files.open((directory / "f").c_str(), O_RDWR);
        if (file == -ESHUTDOWN) return;
        for (;;) {
          self.files.pread_async(file, memory + 4096, 4096, 0);
          const std::int64_t got = self.index % 2 == 0 ? self.files.read(file, outside, 100)
                                                       : self.files.pread(file, memory, 4096, 0);
          if (got == -ESHUTDOWN) break;
          if (got < 0) ++wrong;
          self.files.drain();
        }
      });
    });
    host.join();
    EXPECT_EQ(wrong, 0);
  }
}

// Closing open files needs no further descriptor.
TEST(Shutdown, WorksWithoutFreeDescriptors) {
  test::ScratchDirectory directory;
  const std::string path = directory / "f";
  write_file(path, "x");
  auto runtime = std::make_unique<Runtime>(small_options());
  runtime->run([&](DeviceThread& self) {
    if (self.index != 0) return;
    EXPECT_GT(self.files.open(path.c_str(), O_RDWR), 0);
  });
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_NO_THROW({
    const ShutdownReport report = runtime->shutdown(test::patience);
    EXPECT_TRUE(report.finished);
    EXPECT_TRUE(report.files_closed == 1 || !report.errors.empty()) << "it must say so";
  });
  setrlimit(RLIMIT_NOFILE, &before);
}

// A process that was stopped for a while (Ctrl-Z, a debugger) continues: the pause does not count
// against the server. The test runs itself again, as the stopped process.
TEST(Pause, IsNoDeath) {
  constexpr const char* marker = "FERRY_TEST_PAUSED_CHILD";
  if (getenv(marker) != nullptr) {
    RuntimeOptions options = small_options();
    options.liveness_timeout = milliseconds(900);  // busy CPUs may hold up a loop for a third of it
    Runtime runtime(options);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(4);
    runtime.run([&](DeviceThread& self) {
      while (std::chrono::steady_clock::now() < until)
        ASSERT_EQ(self.files.ping(), 0);
    });
    return;
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv(marker, "1", 1);
    execl("/proc/self/exe", "child", "--gtest_filter=Pause.IsNoDeath", nullptr);
    _exit(127);
  }
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(milliseconds(250));
    kill(child, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(1500));
    kill(child, SIGCONT);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Fork, TheParentsRuntimeIsRefused) {
  auto runtime = std::make_unique<Runtime>(small_options());
  const int found = test::in_a_child([&] {
    const auto refuses = [](const auto& call) { return test::error_of(call) == ECHILD; };
    const bool refused = refuses([&] { runtime->run([](DeviceThread&) {}); }) &&
                         refuses([&] { runtime->allocate(4096); }) &&
                         refuses([&] { runtime->statistics(); }) &&
                         refuses([&] { runtime->context(); }) &&
                         refuses([&] { runtime->shutdown(milliseconds(100)); });
    runtime.reset();  // waits for no thread that is not there
    return refused ? 0 : 1;
  });
  EXPECT_EQ(found, 0);
  runtime->run([](DeviceThread& self) { ASSERT_EQ(self.files.ping(), 0); });
  EXPECT_TRUE(runtime->shutdown(test::patience).finished);
}

TEST(CacheSwitches, AreThoseOfTheNextProgram) {
  const test::ScratchDirectory folder;
  const std::string path = folder / "data";
  constexpr std::uint64_t bytes = 1 << 20;
  write_file(path, pattern(bytes, 1));
  Runtime runtime(test::cached_options(1024, device::Placement::compute));
  const Buffer buffer = runtime.allocate(4096);
  const auto read_ahead = [&](const device::cache::Switches& switches) {
    runtime.use_cache_switches(switches);
    const std::uint64_t before = runtime.statistics().cache.readahead_issued;
    runtime.run([&](DeviceThread& self) {
      const int file = self.files.open(path.c_str(), O_RDONLY);
      ASSERT_EQ(self.files.evict(file), 0);
      for (std::uint64_t at = 0; at < bytes; at += 4096)
        ASSERT_EQ(self.files.pread(file, buffer.data(), 4096, static_cast<std::int64_t>(at)), 4096);
      self.files.close(file);
    });
    return runtime.statistics().cache.readahead_issued - before;
  };
  EXPECT_GT(read_ahead({}), 0U);
  device::cache::Switches without;
  without.readahead = false;
  EXPECT_EQ(read_ahead(without), 0U);
  EXPECT_GT(read_ahead({}), 0U);
}

}  // namespace
}  // namespace ferry
