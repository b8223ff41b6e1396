#include "storage/router.hpp"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

using test::ScratchDirectory;
using test::StorageDriver;

TEST(Router, PathsGoToTheStorageThatTheyName) {
  const ScratchDirectory directory;
  const auto storage = make_router();
  StorageDriver driver(*storage);
  File* file = driver.must_open(directory / "f", O_RDWR | O_CREAT);
  EXPECT_EQ(file->scheme(), Scheme::posix);
  EXPECT_EQ(driver.pwrite(file, "abc", 3, 0), 3);
  EXPECT_EQ(driver.close(file), 0);
  // A relative path of this machine, and no server "nfs".
  EXPECT_EQ(driver.try_open("./nfs://localhost/f", O_RDONLY), -ENOENT);
  EXPECT_EQ(storage->describe_path(directory / "f").name, "posix");
  EXPECT_EQ(storage->describe_path("nfs://127.0.0.1/x").name, "nfs");
}

TEST(Router, AMissingLibraryIsAnErrnoAndALine) {
  const auto storage = make_router({.nfs_library = "libferry-absent.so.1"});
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("nfs://127.0.0.1/x", O_RDONLY), -ENOPKG);
  EXPECT_EQ(driver.path_call(Kind::unlink, "nfs://127.0.0.1/x"), -ENOPKG);
  EXPECT_EQ(storage->describe_path("nfs://127.0.0.1/x").problem,
            "libferry-absent.so.1 cannot be loaded; install the Debian package libnfs13");
}

TEST(Router, ALibraryThatIsAnotherOneIsRefused) {
  const auto storage = make_router({.nfs_library = "libpthread.so.0"});
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("nfs://127.0.0.1/x", O_RDONLY), -ENOPKG);
}

TEST(Router, UrisThatAreNoneAreRefused) {
  const auto storage = make_router();
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("nfs://", O_RDONLY), -EINVAL);
  EXPECT_EQ(driver.try_open("nfs://127.0.0.1/x?nonsense=1", O_RDONLY), -EINVAL);
  EXPECT_EQ(driver.try_open("nfs://127.0.0.1/x?version=4", O_RDONLY), -EPROTONOSUPPORT);
  EXPECT_NE(storage->describe_path("nfs://127.0.0.1/x?nonsense=1").problem.find("nonsense"),
            std::string::npos);
}

TEST(Router, NobodyListeningIsToldAtOnce) {
  const auto storage = make_router();
  StorageDriver driver(*storage);
  const std::string uri = "nfs://127.0.0.1/x?nfsport=1&mountport=1";
  EXPECT_EQ(driver.try_open(uri, O_RDONLY), -ECONNREFUSED);
  EXPECT_NE(storage->describe_path(uri).problem, "");
}

TEST(Router, WhatNfsCannotDoIsDeclared) {
  const auto storage = make_router();
  EXPECT_TRUE(limits(storage->describe_path("/tmp").capabilities).empty());
  const Capabilities nfs =
      storage->describe_path("nfs://127.0.0.1/x?timeout=7&nfsport=1&mountport=1").capabilities;
  EXPECT_FALSE(nfs.atomic_append);
  EXPECT_FALSE(nfs.open_after_unlink);
  EXPECT_EQ(limits(nfs).size(), 3U);
  EXPECT_EQ(nfs.request_timeout, std::chrono::seconds(7));
}

TEST(Router, AMissingCephLibraryIsAnErrnoAndALine) {
  const auto storage = make_router({.ceph_library = "libferry-absent.so.1"});
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("ceph:/x", O_RDONLY), -ENOPKG);
  EXPECT_EQ(driver.path_call(Kind::unlink, "ceph:/x"), -ENOPKG);
  EXPECT_EQ(storage->describe_path("ceph:/x").problem,
            "libferry-absent.so.1 cannot be loaded; install the Debian package libcephfs2");
}

TEST(Router, TellsWhichClientLibrariesCanBeLoaded) {
  const std::vector<ClientLibrary> found = client_libraries({
      .nfs_library = "libferry-absent.so.1",
      .ceph_library = FERRY_MOCKS "/libcephfs_mock.so",
      .pvfs2_library = "libpthread.so.0",
  });
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].storage, "nfs");
  EXPECT_EQ(found[0].file_name, "libferry-absent.so.1");
  EXPECT_EQ(found[0].problem,
            "libferry-absent.so.1 cannot be loaded; install the Debian package libnfs13");
  EXPECT_EQ(found[1].storage, "ceph");
  EXPECT_EQ(found[1].problem, "");
  EXPECT_EQ(found[2].storage, "pvfs2");
  EXPECT_NE(found[2].problem.find("has no function PVFS_"), std::string::npos);
}

TEST(Router, CephUrisThatAreNoneAreRefused) {
  const auto storage = make_router();
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("ceph:/x?nonsense=1", O_RDONLY), -EINVAL);
  EXPECT_EQ(driver.try_open("ceph:/x?timeout=0", O_RDONLY), -EINVAL);
  EXPECT_NE(storage->describe_path("ceph:/x?timeout=0").problem.find("timeout=0"),
            std::string::npos);
}

TEST(Router, AClusterWithoutAConfigurationIsToldAtOnce) {
  const auto storage = make_router();
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("ceph:/x?conf=/absent/ceph.conf", O_RDONLY), -ENOENT);
  const std::string problem = storage->describe_path("ceph:/x?conf=/absent/ceph.conf").problem;
  EXPECT_NE(problem.find("/absent/ceph.conf"), std::string::npos) << problem;
  EXPECT_EQ(problem.find('\n'), std::string::npos);
}

// The library itself would retry for minutes, and cannot be stopped.
TEST(Router, AClusterThatDoesNotAnswerIsBoundedInTime) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "absent: libcephfs is not built for the thread sanitizer, which sees races in it";
#endif
  const ScratchDirectory directory;
  test::write_file(directory / "ceph.conf",
                   "[global]\nmon_host = [v2:127.0.0.1:1]\nauth_client_required = none\n");
  const std::string uri = "ceph:/x?timeout=1&conf=" + (directory / "ceph.conf");
  const auto storage = make_router();
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open(uri, O_RDONLY), -ETIMEDOUT);
  EXPECT_NE(storage->describe_path(uri).problem.find("cannot be used"), std::string::npos);
}

}  // namespace
}  // namespace ferry::storage
