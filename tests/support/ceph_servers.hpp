// The base of tests that mistreat a Ceph cluster, which must be the rig's.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.hpp"
#include "support/server_faults.hpp"

namespace ferry::test {

inline bool is_mounted(const std::string& folder) {
  struct stat here {};
  struct stat above {};
  return stat(folder.c_str(), &here) == 0 && stat((folder + "/..").c_str(), &above) == 0 &&
         here.st_dev != above.st_dev;
}

class CephServers : public ServerFaults {
 protected:
  CephServers() : ServerFaults("ceph", "CEPH") {}
  void TearDown() override {
    ServerFaults::TearDown();
    for (const std::string& uri : made)
      driver->path_call(storage::Kind::unlink, uri);
  }

  static std::string name_of(const std::string& name) {
    return "faults-" + std::to_string(getpid()) + "-" + name;
  }
  std::string at(const std::string& name, unsigned timeout_s = 60) const {
    return uri_of(name_of(name), timeout_s);
  }
  // The same file through ceph-fuse's mount.
  std::string mounted(const std::string& name) const {
    return server->directory + "/" + name_of(name);
  }
  DrivenFile make_file(const std::string& name, const std::string& bytes, unsigned timeout_s = 60) {
    made.push_back(at(name));
    DrivenFile file = open_unhurried(at(name, timeout_s), O_RDWR | O_CREAT);
    EXPECT_EQ(unhurried([&] { return write(file, bytes); }), std::ssize(bytes));
    EXPECT_EQ(unhurried([&] { return driver->simple(storage::Kind::sync, file); }), 0);
    return file;
  }
  // As another client of the cluster, which caches nothing of the file.
  DrivenFile reopen(const std::string& name, unsigned timeout_s = 60) {
    make_storage();
    return open_unhurried(at(name, timeout_s), O_RDWR);
  }
  DrivenFile make_and_reopen(const std::string& name, const std::string& bytes,
                             unsigned timeout_s = 60) {
    make_file(name, bytes, timeout_s).close();
    return reopen(name, timeout_s);
  }

  std::vector<std::string> made;
};

}  // namespace ferry::test

#define NEEDS_A_MOUNT()                                                         \
  if (!ferry::test::is_mounted(server->directory)) {                            \
    GTEST_SKIP() << "needs a mount by ceph-fuse (rigs/rig up ceph --mount) at " \
                 << server->directory;                                          \
  }

#define NEEDS_A_CLUSTER_ON_DISK()                                                           \
  if (std::getenv("FERRY_TEST_CEPH_DISK") == nullptr) {                                     \
    GTEST_SKIP() << "needs a cluster that stores in files (rigs/rig up ceph --disk, which " \
                    "FERRY_TEST_CEPH_DISK tells)";                                          \
  }
