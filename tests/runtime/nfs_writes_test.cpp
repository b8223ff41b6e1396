// Cached writes to an NFS server that loses them: they reach the server through one handle, and
// whichever handle syncs reports the loss.
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

#include "support/fake_nfs_server.hpp"
#include "support/small_runtimes.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Placement;

class NfsWritesOfARuntime : public testing::TestWithParam<Placement> {
 protected:
  void run(const Runtime::Program& program) {
    RuntimeOptions options = test::small_runtime(1, 4 << 20);
    options.placement = GetParam();
    Runtime runtime(options);
    test::within_patience("a device program", [&] { runtime.run(program); });
  }

  test::FakeNfsServer server_;
};

TEST_P(NfsWritesOfARuntime, ARestartThatLosesThemIsReportedByEveryHandleOnce) {
  const std::string uri = server_.uri("f");
  run([&](DeviceThread& self) {
    std::vector<int> files;
    for (int i = 0; i < 3; ++i)
      files.push_back(self.files.open(uri.c_str(), O_RDWR | O_CREAT, 0644));
    const std::string data(10'000, 'a');
    for (const int writer : files) {
      ASSERT_EQ(self.files.pwrite(writer, data.data(), data.size(), 0), 10'000);
      ASSERT_EQ(self.files.flush(writer), 0);
      ASSERT_EQ(server_.contents("f").size(), data.size());
      server_.restart();
      for (const int file : files) {
        EXPECT_EQ(self.files.fsync(file), -EIO);
        EXPECT_EQ(self.files.fsync(file), 0);
      }
    }
    ASSERT_EQ(self.files.pwrite(files[0], data.data(), data.size(), 0), 10'000);
    EXPECT_EQ(self.files.fsync(files[2]), 0);
    server_.restart();
    EXPECT_EQ(server_.contents("f"), data);
    for (const int file : files)
      EXPECT_EQ(self.files.close(file), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Placements, NfsWritesOfARuntime,
                         testing::Values(Placement::host, Placement::compute, Placement::service,
                                         Placement::automatic));

}  // namespace
}  // namespace ferry
