// A ceph-fuse evicted by the metadata server: calls through its mount, and recovery.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include "support/ceph_servers.hpp"

namespace ferry::storage::ceph_mount_eviction_test {
namespace {

using test::pattern;
using test::same_bytes;

constexpr std::size_t mib = 1 << 20;

class CephMountEviction : public test::CephServers {
 protected:
  void TearDown() override {
    if (evicted_) mount_again();
    CephServers::TearDown();
  }

  void evict() {
    // Where the rig notes what it started.
    std::ifstream(server->directory + "/../fuse.process") >> program_;
    ASSERT_GT(program_, 0);
    evicted_ = true;
    rig("evict", std::to_string(program_));
  }
  // As docs/reference/cephfs.md says.
  void mount_again() {
    evicted_ = false;
    if (umount(server->directory.c_str()) != 0) {
      EXPECT_EQ(errno, EBUSY);
      EXPECT_EQ(umount2(server->directory.c_str(), MNT_DETACH), 0);
    }
    rig("up", "--mount");
    ASSERT_TRUE(test::is_mounted(server->directory));
  }
  bool program_runs() const {
    std::string state;
    std::ifstream status("/proc/" + std::to_string(program_) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("State:")) state = line;
    return !state.empty() && state.find('Z') == std::string::npos;
  }
  test::DrivenFile make_mounted(const std::string& name, const std::string& bytes) {
    made.push_back(at(name));
    auto file = must_open(mounted(name), O_RDWR | O_CREAT);
    EXPECT_EQ(write(file, bytes), std::ssize(bytes));
    EXPECT_EQ(driver->simple(Kind::sync, file), 0);
    return file;
  }

 private:
  pid_t program_ = 0;
  bool evicted_ = false;
};

// Nothing waits. With ceph-fuse 16.2 a sync returns 0 for lost bytes; the close reports them.
TEST_F(CephMountEviction, EveryKindOfCallEndsAndTheLossIsTold) {
  NEEDS_A_MOUNT();
  const std::string data = pattern(mib, 1);
  File* synced = make_mounted("synced", data).release();
  File* closed = make_mounted("closed", data).release();
  auto clean = make_mounted("clean", data);
  // In the memory of ceph-fuse only.
  ASSERT_EQ(driver->pwrite(synced, arena.data(), 10, mib), 10);
  ASSERT_EQ(driver->pwrite(closed, arena.data(), 10, mib), 10);
  evict();
  const std::int64_t sync = driver->simple(Kind::sync, synced);
  EXPECT_TRUE(sync == 0 || sync == -ESHUTDOWN) << sync;
  const std::int64_t results[] = {
      driver->pread(synced, arena.data(), mib, 0),
      driver->pwrite(synced, arena.data(), 10, 0),
      driver->simple(Kind::truncate, synced, 100),
      driver->try_open(mounted("synced"), O_RDONLY),
      driver->try_open(mounted("new"), O_RDWR | O_CREAT),
      driver->path_call(Kind::path_status, mounted("synced")),
      driver->path_call(Kind::unlink, mounted("synced")),
      driver->path_call(Kind::make_directory, mounted("new")),
  };
  for (const std::int64_t result : results)
    EXPECT_EQ(result, -ESHUTDOWN);
  const std::int64_t status = driver->simple(Kind::file_status, synced);
  EXPECT_TRUE(status == -ENOENT || status == -ESHUTDOWN) << status;
  const std::int64_t told = driver->close(synced);
  EXPECT_TRUE(sync == -ESHUTDOWN || told == -ESHUTDOWN) << "nobody says that bytes are lost";
  EXPECT_EQ(driver->close(closed), -ESHUTDOWN);
  clean.close();  // it has lost nothing

  mount_again();
  EXPECT_TRUE(test::eventually([&] { return !program_runs(); }));
  for (const char* name : {"synced", "closed", "clean"}) {
    const auto file = must_open(mounted(name), O_RDWR);
    // One byte more than there is.
    ASSERT_EQ(driver->pread(file, arena.data(), mib + 1, 0), std::int64_t{mib});
    EXPECT_TRUE(same_bytes(arena.view(0, mib), data)) << name;
    EXPECT_EQ(driver->pwrite(file, arena.data(), 10, mib), 10);
    EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  }
}

// A file that is open while the mount is replaced stays with the lost ceph-fuse.
TEST_F(CephMountEviction, OpenFilesKeepTheLostMountUntilTheyAreClosed) {
  NEEDS_A_MOUNT();
  const std::string data = pattern(mib, 1);
  auto file = make_mounted("f", data);
  evict();
  EXPECT_EQ(driver->pread(file, arena.data(), mib, 0), -ESHUTDOWN);
  mount_again();
  EXPECT_EQ(driver->pread(file, arena.data(), mib, 0), -ESHUTDOWN);
  const auto again = must_open(mounted("f"), O_RDONLY);
  EXPECT_TRUE(finds(again, data));
  EXPECT_TRUE(program_runs());
  file.close();
  EXPECT_TRUE(test::eventually([&] { return !program_runs(); }));
}

// Transfers in flight at the eviction return.
TEST_F(CephMountEviction, TransfersUnderWayEnd) {
  NEEDS_A_MOUNT();
  const std::string data = pattern(mib, 1);
  const auto file = make_mounted("f", data);
  std::thread evicts([&] { evict(); });
  const auto until = std::chrono::steady_clock::now() + test::patience;
  std::int64_t got = 1;
  // The kernel requests pieces; those before a failing one make a short read.
  while (got > 0 && std::chrono::steady_clock::now() < until) {
    std::memset(arena.data(), 0, mib);
    got = driver->pread(file, arena.data(), mib, 0);
    const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(got, 0));
    EXPECT_TRUE(same_bytes(arena.view(0, bytes), data.substr(0, bytes)));
  }
  evicts.join();
  EXPECT_EQ(got, -ESHUTDOWN);
}

}  // namespace
}  // namespace ferry::storage::ceph_mount_eviction_test
