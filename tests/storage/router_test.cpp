#include "storage/router.hpp"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

using test::ScratchDirectory;
using test::StorageDriver;

class Router : public testing::Test {
 protected:
  // Whatever an open of it finds, its description says it, too.
  void expect_refused(const std::string& uri, int error, const std::string& problem) {
    EXPECT_EQ(driver.try_open(uri, O_RDONLY), -error) << uri;
    const std::string said = storage->describe_path(uri).problem;
    EXPECT_NE(said.find(problem), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }

  const ScratchDirectory directory;
  const std::unique_ptr<Storage> storage = make_router();
  StorageDriver driver{*storage};
};

TEST_F(Router, PathsGoToTheStorageThatTheyName) {
  File* file = driver.must_open(directory / "f", O_RDWR | O_CREAT);
  EXPECT_EQ(file->scheme(), Scheme::posix);
  EXPECT_EQ(driver.pwrite(file, "abc", 3, 0), 3);
  EXPECT_EQ(driver.close(file), 0);
  // A relative path of this machine, and no server "nfs".
  EXPECT_EQ(driver.try_open("./nfs://localhost/f", O_RDONLY), -ENOENT);
  EXPECT_EQ(storage->describe_path(directory / "f").name, "posix");
  EXPECT_EQ(storage->describe_path("nfs://127.0.0.1/x").name, "nfs");
}

TEST(RouterLibraries, OneThatIsMissingIsAnErrnoAndALine) {
  constexpr const char* absent = "libferry-absent.so.1";
  const auto storage = make_router({.nfs_libraries = {absent}, .ceph_library = absent});
  StorageDriver driver(*storage);
  for (const auto& [uri, package] :
       {std::pair{"nfs://127.0.0.1/x", "libnfs13 or libnfs14"}, {"ceph:/x", "libcephfs2"}}) {
    EXPECT_EQ(driver.try_open(uri, O_RDONLY), -ENOPKG);
    EXPECT_EQ(driver.path_call(Kind::unlink, uri), -ENOPKG);
    EXPECT_EQ(storage->describe_path(uri).problem,
              std::string(absent) + " cannot be loaded; install the Debian package " + package);
  }
}

// Of libnfs 4 and 5 one is installed.
TEST(RouterLibraries, AnotherVersionDoes) {
  const std::vector<ClientLibrary> found =
      client_libraries({.nfs_libraries = {"libferry-absent.so.1", "libpthread.so.0"}});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].problem.find("libpthread.so.0 has no function nfs_"), 0U) << found[0].problem;
}

TEST(RouterLibraries, OneThatIsAnotherIsRefused) {
  const auto storage = make_router({.nfs_libraries = {"libpthread.so.0"}});
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("nfs://127.0.0.1/x", O_RDONLY), -ENOPKG);
}

TEST_F(Router, UrisThatAreNoneAreRefused) {
  expect_refused("nfs://", EINVAL, "");
  expect_refused("nfs://127.0.0.1/x?nonsense=1", EINVAL, "nonsense");
  expect_refused("nfs://127.0.0.1/x?version=4", EPROTONOSUPPORT, "");
  expect_refused("ceph:/x?nonsense=1", EINVAL, "");
  expect_refused("ceph:/x?timeout=0", EINVAL, "timeout=0");
}

TEST_F(Router, NobodyListeningIsToldAtOnce) {
  const std::string uri = "nfs://127.0.0.1/x?nfsport=1&mountport=1";
  EXPECT_EQ(driver.try_open(uri, O_RDONLY), -ECONNREFUSED);
  EXPECT_NE(storage->describe_path(uri).problem, "");
}

TEST_F(Router, WhatNfsCannotDoIsDeclared) {
  EXPECT_TRUE(limits(storage->describe_path("/tmp").capabilities).empty());
  const Capabilities nfs =
      storage->describe_path("nfs://127.0.0.1/x?timeout=7&nfsport=1&mountport=1").capabilities;
  EXPECT_FALSE(nfs.atomic_append);
  EXPECT_FALSE(nfs.open_after_unlink);
  EXPECT_EQ(limits(nfs).size(), 3U);
  EXPECT_EQ(nfs.request_timeout, std::chrono::seconds(7));
}

TEST(RouterLibraries, TheOnesThatCanBeLoadedAreTold) {
  const std::vector<ClientLibrary> found = client_libraries({
      .nfs_libraries = {"libferry-absent.so.1", "libferry-absent.so.2"},
      .ceph_library = FERRY_MOCKS "/libcephfs_mock.so",
      .pvfs2_library = "libpthread.so.0",
  });
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].storage, "nfs");
  EXPECT_EQ(found[0].file_name, "libferry-absent.so.1 or libferry-absent.so.2");
  EXPECT_EQ(found[0].problem,
            "libferry-absent.so.1 or libferry-absent.so.2 cannot be loaded; "
            "install the Debian package libnfs13 or libnfs14");
  EXPECT_EQ(found[1].storage, "ceph");
  EXPECT_EQ(found[1].problem, "");
  EXPECT_EQ(found[2].storage, "pvfs2");
  EXPECT_NE(found[2].problem.find("has no function PVFS_"), std::string::npos);
}

TEST_F(Router, AClusterWithoutAConfigurationIsToldAtOnce) {
  // Not ENOENT: the file x may be there.
  expect_refused("ceph:/x?conf=/absent/ceph.conf", EINVAL, "/absent/ceph.conf");
}

// The library itself would retry for minutes, and cannot be stopped.
TEST_F(Router, AClusterThatDoesNotAnswerIsBoundedInTime) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "absent: libcephfs is not built for the thread sanitizer, which sees races in it";
#endif
  test::write_file(directory / "ceph.conf",
                   "[global]\nmon_host = [v2:127.0.0.1:1]\nauth_client_required = none\n");
  const std::string uri = "ceph:/x?timeout=1&conf=" + (directory / "ceph.conf");
  expect_refused(uri, ETIMEDOUT, "cannot be used");
}

}  // namespace
}  // namespace ferry::storage
