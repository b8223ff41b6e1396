// Real PVFS2 or OrangeFS servers that are killed and return. Debian has none, and there is no rig:
// FERRY_TEST_PVFS2 and FERRY_TEST_PVFS2_DIRECTORY name them, and FERRY_TEST_PVFS2_RIG is a program
// called like rigs/rig, with "kill pvfs2", "up pvfs2" and "thaw pvfs2".
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/depth.hpp"
#include "support/server_faults.hpp"

namespace ferry::storage {
namespace {

class Pvfs2Kills : public test::ServerFaults {
 protected:
  Pvfs2Kills() : ServerFaults("pvfs2", "PVFS2", "FERRY_TEST_PVFS2_RIG") {}
};

// Everything that a sync acknowledged is there when the servers return; a new client finds it.
TEST_F(Pvfs2Kills, SyncedBytesSurviveKillsUnderLoad) {
  const std::string uri = uri_of("faults-" + std::to_string(getpid()), 30);
  File* file = driver->must_open(uri, O_RDWR | O_CREAT);
  std::atomic<bool> over{false};
  std::thread killer([&] { restart_often(test::scaled(3), std::chrono::milliseconds(500), over); });
  std::uint64_t failed = 0;
  const auto goes_on = [&](std::int64_t result) {
    if (result != 0) ++failed;
    return !over;
  };
  const Rounds durable = write_rounds(file, goes_on);
  killer.join();
  RecordProperty("failed_rounds", std::to_string(failed));
  driver->close(file);
  make_storage();
  expect_rounds(open_unhurried(uri, O_RDONLY), durable);
  EXPECT_EQ(driver->path_call(Kind::unlink, uri), 0);
}

}  // namespace
}  // namespace ferry::storage
