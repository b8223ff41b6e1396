// Random calls compared with an in-memory model of the file (support/random_calls.hpp) on runtimes
// of many shapes.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/random_calls_host.hpp"
#include "support/runtimes.hpp"
#include "support/servers.hpp"
#include "support/stripes.hpp"

namespace ferry::random_calls_test {
namespace {

using test::Random;

class RandomCalls : public test::OnRuntime {
 protected:
  // In a new folder of `parent`, which a server may serve.
  void run(const std::string& parent, std::uint64_t operations,
           const std::optional<test::ServedFolder>& server = {}) {
    const test::ScratchDirectory directory(parent);
    const std::string folder = std::filesystem::path(directory.path()).filename();
    Random random;
    const unsigned threads = runtime->info().device_threads;
    const Buffer arena = runtime->allocate(threads * test::calls_memory_bytes);
    test::RandomFiles files(threads);
    for (unsigned i = 0; i < threads; ++i) {
      const std::string file = std::to_string(i);
      files.add(server ? server->uri_of(folder + "/" + file) : directory / file, directory / file,
                arena.as<unsigned char>() + i * test::calls_memory_bytes, random.fork(),
                GetParam().cache_pages > 0);
    }
    EXPECT_EQ(test::make_random_calls(files, &runtime->context(), operations / threads,
                                      [&](const auto& program) { on_threads(program); }),
              "");
  }
  template <class Program>
  void on_threads(const Program& program) const {
    runtime->run(
        [&](DeviceThread& self) { program(self.files, device::ThreadGroup{}, self.index); });
  }
};

TEST_P(RandomCalls, EachThreadOnItsOwnFile) {
  run(std::filesystem::temp_directory_path().string(), test::scaled(60'000));
}

TEST_P(RandomCalls, OnAFileSystemInMemory) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm is not there";
  run("/dev/shm", test::scaled(40'000));
}

TEST_P(RandomCalls, OnAnNfsServer) {
  const auto server = test::served_folder("NFS");
  if (!server) GTEST_SKIP() << test::no_server("NFS");
  run(server->directory, test::scaled(6000), server);
}

TEST_P(RandomCalls, OnACephCluster) {
  const auto server = test::served_folder("CEPH");
  if (!server) GTEST_SKIP() << test::no_server("CEPH");
  run(server->directory, test::scaled(3000), server);
}

TEST_P(RandomCalls, AllThreadsOnOneFile) {
  const test::ScratchDirectory directory;
  Random random;
  const unsigned threads = runtime->info().device_threads;
  for (const std::uint64_t stripe : std::vector<std::uint64_t>{1, 100, 512, 4096, 5000, 65'536}) {
    const Buffer arena = runtime->allocate(threads * stripe);
    test::OwnStripes stripes{stripe, std::min<std::uint64_t>(64, (1 << 21) / stripe),
                             test::scaled(4000) / threads, random.bits()};
    stripes.direct = true;
    ASSERT_EQ(test::write_in_stripes(directory / "shared", stripes, threads, &runtime->context(),
                                     arena.as<unsigned char>(),
                                     [&](const auto& program) { on_threads(program); }),
              "")
        << "stripes of " << stripe;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RandomCalls, testing::ValuesIn(test::shapes()), test::shape_name);
// Eviction and write-back all the time, now and then, and never.
INSTANTIATE_TEST_SUITE_P(
    Cached, RandomCalls,
    testing::Values(test::Shape{"tiny", StorageEngine::automatic, 2, 1, 0, false, 5},
                    test::Shape{"many", StorageEngine::automatic, 4, 2, 3, false, 50},
                    test::Shape{"large", StorageEngine::threads, 2, 1, 0, false, 2000},
                    test::Shape{"one_cpu", StorageEngine::automatic, 2, 1, 0, true, 20},
                    test::Shape{"service_thread", StorageEngine::automatic, 2, 1, 0, false, 20, 1},
                    test::Shape{"service_threads", StorageEngine::automatic, 3, 2, 0, false, 8, 2}),
    test::shape_name);

}  // namespace
}  // namespace ferry::random_calls_test
