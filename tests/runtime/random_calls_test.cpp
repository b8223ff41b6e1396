// Random calls compared with an in-memory model of the file (support/random_calls.hpp) on runtimes
// of many shapes.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/random_calls_host.hpp"
#include "support/runtimes.hpp"
#include "support/servers.hpp"

namespace ferry::random_calls_test {
namespace {

using test::Random;

constexpr device::Placement placements[] = {device::Placement::host, device::Placement::compute,
                                            device::Placement::service,
                                            device::Placement::automatic};

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
    const auto on_threads = [&](const test::RandomCallsProgram& program) {
      runtime->run(
          [&](DeviceThread& self) { program(self.files, device::ThreadGroup{}, self.index); });
    };
    EXPECT_EQ(test::make_random_calls(files, &runtime->context(), operations / threads, on_threads),
              "");
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

// All threads on one file, each on its own stripes between the others', down to neighbouring bytes.
TEST_P(RandomCalls, AllThreadsOnOneFile) {
  const test::ScratchDirectory directory;
  const std::string path = directory / "shared";
  test::write_file(path, "");
  Random random;
  const unsigned threads = runtime->info().device_threads;
  for (const std::uint64_t stripe : std::vector<std::uint64_t>{1, 100, 512, 4096, 5000, 65'536}) {
    const std::uint64_t stripes = std::min<std::uint64_t>(64, (1 << 21) / stripe);
    std::vector<std::string> models(threads, std::string(stripe * stripes, '\0'));
    std::vector<Random> randoms;
    for (unsigned i = 0; i < threads; ++i)
      randoms.push_back(random.fork());
    const Buffer arena = runtime->allocate(threads * 2 * 65'536);
    std::atomic<int> wrong{0};
    {
      // Long enough from the beginning, so that every read is a full one.
      const test::Descriptor fd(::open(path.c_str(), O_RDWR | O_TRUNC));
      ASSERT_EQ(ftruncate(fd, static_cast<off_t>(stripe * stripes * threads)), 0);
    }
    runtime->run([&](DeviceThread& self) {
      Random& own = randoms[self.index];
      std::string& model = models[self.index];
      const int flags = O_RDWR | (self.index % 2 == 1 && stripe % 4096 == 0 ? O_DIRECT : 0);
      int file = self.files.open(path.c_str(), flags);
      if (file == -EINVAL) file = self.files.open(path.c_str(), O_RDWR);
      std::vector<char> outside(65'536);
      char* inside = arena.as<char>() + self.index * 2 * 65'536;
      const std::uint64_t rounds = test::scaled(4000) / threads;
      for (std::uint64_t i = 0; i < rounds && wrong == 0; ++i) {
        const std::uint64_t index = own.below(stripes);
        const auto offset = static_cast<std::int64_t>((index * self.count + self.index) * stripe);
        char* memory = own.one_in(3) ? outside.data() : inside;
        if (own.one_in(2)) {
          self.files.use(own.pick(placements));
        }
        const auto bytes = static_cast<std::int64_t>(stripe);
        if (own.one_in(2)) {
          const std::string data = test::pattern(stripe, own.bits());
          std::memcpy(memory, data.data(), stripe);
          if (self.files.pwrite(file, memory, stripe, offset) != bytes) ++wrong;
          model.replace(index * stripe, stripe, data);
        } else {
          if (self.files.pread(file, memory, stripe, offset) != bytes) ++wrong;
          if (std::memcmp(memory, model.data() + index * stripe, stripe) != 0) ++wrong;
        }
      }
      if (self.files.close(file) != 0) ++wrong;
    });
    ASSERT_EQ(wrong, 0) << "stripes of " << stripe;
    std::string wanted;
    for (std::uint64_t index = 0; index < stripes; ++index) {
      for (unsigned i = 0; i < threads; ++i)
        wanted += models[i].substr(index * stripe, stripe);
    }
    ASSERT_TRUE(test::same_bytes(test::read_file(path), wanted)) << "stripes of " << stripe;
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
