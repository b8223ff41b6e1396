// Storage `pvfs2` on a mock of libpvfs2 (tests/mocks): loading, tables, layouts, and failures.
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"

namespace ferry::storage::pvfs2_mock_test {
namespace {

using test::StorageDriver;
using Clock = std::chrono::steady_clock;

class Pvfs2Mock : public test::ClientMock {
 protected:
  Pvfs2Mock() { use(make_router({.pvfs2_library = test::pvfs2_mock})); }
  // With a bound of a second.
  std::string at(const std::string& name) const { return table.uri_of(path(name)) + "&timeout=1"; }

  test::MockTable table;
  test::Pvfs2Faults faults;
};

// ---- finding it

TEST(Pvfs2Library, AMissingOneIsAnErrnoAndALine) {
  const auto storage = make_router({.pvfs2_library = "libferry-absent.so.2"});
  StorageDriver driver(*storage);
  EXPECT_EQ(driver.try_open("pvfs2:/mnt/f", O_RDONLY), -ENOPKG);
  EXPECT_EQ(storage->describe_path("pvfs2:/mnt/f").problem,
            "libferry-absent.so.2 cannot be loaded; install the client of your OrangeFS or PVFS2, "
            "which is in no Debian release");
}

TEST(Pvfs2Library, OneWithoutTheFunctionsIsRefused) {
  const auto storage = make_router({.pvfs2_library = "libpthread.so.0"});
  EXPECT_NE(storage->describe_path("pvfs2:/mnt/f").problem.find("has no function PVFS_"),
            std::string::npos);
}

TEST_F(Pvfs2Mock, IsDescribed) {
  test::write_file(path("f"), "x");
  const Description description = storage->describe_path(at("f"));
  EXPECT_EQ(description.name, "pvfs2");
  EXPECT_EQ(description.problem, "");
  ASSERT_EQ(description.notes.size(), 1U);
  EXPECT_EQ(description.notes[0], "PVFS2 file system mock of mock:/, listed as /mock");
  EXPECT_EQ(description.capabilities.request_timeout, std::chrono::seconds(1));
  EXPECT_FALSE(limits(description.capabilities).empty());
}

TEST_F(Pvfs2Mock, WhatIsNotListedIsSaid) {
  const std::string elsewhere = "pvfs2:/elsewhere/f" + table.query();
  EXPECT_EQ(driver->try_open(elsewhere, O_RDONLY), -ENOENT);
  EXPECT_NE(storage->describe_path(elsewhere).problem.find("the first one is /mock"),
            std::string::npos);
  const std::string no_table = "pvfs2:/mock/f?tab=" + path("absent");
  EXPECT_EQ(driver->try_open(no_table, O_RDONLY), -ENOENT);
  EXPECT_NE(storage->describe_path(no_table).problem.find("name the file by tab= or PVFS2TAB_FILE"),
            std::string::npos);
  EXPECT_EQ(driver->try_open("pvfs2:/mock/f?nonsense=1", O_RDONLY), -EINVAL);
}

TEST_F(Pvfs2Mock, TheTableOfTheEnvironmentIsUsed) {
  test::write_file(path("f"), "x");
  setenv("PVFS2TAB_FILE", table.path().c_str(), 1);
  EXPECT_EQ(driver->try_open("pvfs2:/mock" + path("f"), O_RDONLY), 0);
  unsetenv("PVFS2TAB_FILE");
}

TEST_F(Pvfs2Mock, TheLongestFolderThatIsListedCounts) {
  const std::string listed = path("tab");
  test::write_file(path("f"), "outer");
  ASSERT_EQ(mkdir(path("inner").c_str(), 0755), 0);
  test::write_file(path("inner/f"), "inner");
  test::write_file(listed, "mock:" + directory.path() + " /m pvfs2 x 0 0\nmock:" + path("inner") +
                               " /m/f pvfs2 x 0 0\nother /m/f/f nfs x 0 0\n");
  for (const char* name : {"/m/f/f", "/m//f/../f/f"}) {
    const auto file = must_open("pvfs2:" + std::string(name) + "?tab=" + listed, O_RDONLY);
    EXPECT_EQ(driver->pread(file, memory.data(), 10, 0), 5);
    EXPECT_EQ(memory.substr(0, 5), "inner");
  }
}

TEST_F(Pvfs2Mock, AServerThatIsGoneIsSaid) {
  const std::string listed = path("tab");
  test::write_file(listed, "mock:" + path("absent") + " /gone pvfs2 x 0 0\n");
  const std::string uri = "pvfs2:/gone/f?tab=" + listed;
  EXPECT_EQ(driver->try_open(uri, O_RDONLY), -ECONNREFUSED);
  EXPECT_NE(storage->describe_path(uri).problem.find("see that it runs"), std::string::npos);
  ASSERT_EQ(mkdir(path("absent").c_str(), 0755), 0);
  EXPECT_EQ(driver->try_open(uri, O_RDONLY), -ENOENT) << "it has come back";
}

// ---- layouts

TEST_F(Pvfs2Mock, MoreDataFilesThanServersAreRefusedOrReduced) {
  Layout asked = test::striped(0, 9);
  EXPECT_EQ(driver->layout_call(Kind::open, at("f"), asked), -EINVAL);
  EXPECT_EQ(test::file_size(path("f")), -ENOENT) << "a refused file is not left behind";
  asked.at_most = true;
  asked.pool = "none";
  ASSERT_EQ(driver->layout_call(Kind::open, at("f"), asked), 0);
  EXPECT_EQ(asked.stripe_count, 4U);
  EXPECT_EQ(asked.stripe_bytes, 65536U);
  EXPECT_EQ(asked.pool, "");
}

TEST_F(Pvfs2Mock, WhatItHasNotIsRefused) {
  std::vector<Layout> wrong(3);
  wrong[0].pool = "fast";
  wrong[1].first_server = 1;
  wrong[2].extras[object_bytes_name] = 1 << 20;
  for (Layout& layout : wrong) {
    EXPECT_EQ(driver->layout_call(Kind::open, at("f"), layout), -EINVAL);
    EXPECT_EQ(driver->layout_call(Kind::set_layout, at(""), layout), -EINVAL);
  }
}

TEST_F(Pvfs2Mock, DirectoriesPassTheirLayoutOn) {
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  Layout asked = test::striped(1 << 20, 2);
  ASSERT_EQ(driver->layout_call(Kind::set_layout, at("d"), asked), 0);
  auto file = must_open(at("d/f"), O_RDWR | O_CREAT);
  Layout stuffed;  // on one server, until it has grown
  EXPECT_EQ(driver->layout_call(Kind::path_layout, at("d/f"), stuffed), 0);
  EXPECT_EQ(stuffed.stripe_count, 1U);
  EXPECT_EQ(driver->simple(Kind::truncate, file, (1 << 20) + 1), 0);
  file.close();
  for (const char* name : {"d", "d/f"}) {
    Layout told;
    ASSERT_EQ(driver->layout_call(Kind::path_layout, at(name), told), 0) << name;
    EXPECT_TRUE(grants(told, asked)) << name;
  }
  EXPECT_EQ(driver->layout_call(Kind::set_layout, at("d/f"), asked), -ENOTDIR);
}

// ---- what goes wrong

TEST_F(Pvfs2Mock, ErrorsComeThrough) {
  test::write_file(path("f"), "abc");
  auto file = must_open(at("f"), O_RDWR);
  for (const int error : {EIO, ENOSPC, EROFS, EACCES, ECONNREFUSED}) {
    faults.fail("PVFS_sys_io", error);
    EXPECT_EQ(driver->pread(file, memory.data(), 3, 0), -error);
    EXPECT_EQ(driver->pwrite(file, memory.data(), 3, 0), -error);
  }
  faults.fail("PVFS_sys_flush", EIO);
  EXPECT_EQ(driver->simple(Kind::sync, file), -EIO);
  faults.fail("PVFS_sys_truncate", ENOSPC);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 10), -ENOSPC);
  faults.fail("PVFS_sys_getattr", EIO);
  std::uint64_t value = 0;
  EXPECT_EQ(driver->append(file, memory.data(), 3, value), -EIO);
  faults.fail("", 0);
  EXPECT_EQ(driver->pread(file, memory.data(), 3, 0), 3);
  file.close();
  faults.fail("PVFS_sys_create", EROFS);
  EXPECT_EQ(driver->try_open(at("new"), O_RDWR | O_CREAT), -EROFS);
  faults.fail("PVFS_sys_remove", EROFS);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f")), -EROFS);
  faults.fail("PVFS_sys_lookup", EIO);
  EXPECT_EQ(driver->try_open(at("f"), O_RDWR), -EIO);
}

TEST_F(Pvfs2Mock, AFailedCredentialIsSaid) {
  faults.fail("PVFS_util_gen_credential", EPERM);
  EXPECT_EQ(driver->try_open(at("f") + "&uid=4711&gid=4711", O_RDONLY), -EPERM);
}

TEST_F(Pvfs2Mock, ARemovedFileIsStale) {
  test::write_file(path("f"), "abc");
  const auto file = must_open(at("f"), O_RDWR);
  ASSERT_EQ(unlink(path("f").c_str()), 0);
  EXPECT_EQ(driver->pread(file, memory.data(), 3, 0), -ESTALE);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 3, 0), -ESTALE);
}

TEST_F(Pvfs2Mock, SynchronousWritesAreFlushed) {
  const auto file = must_open(at("f"), O_RDWR | O_CREAT | O_DSYNC);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 3, 0), 3);
  faults.fail("PVFS_sys_flush", EIO);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 3, 3), -EIO);
  faults.fail("", 0);
}

TEST_F(Pvfs2Mock, CallsThatHangEndInTime) {
  test::write_file(path("f"), std::string(1000, 'a'));
  const auto file = must_open(at("f"), O_RDWR);
  faults.hang("PVFS_sys_io");
  const auto began = Clock::now();
  EXPECT_EQ(driver->pread(file, memory.data(), 10, 0), -ETIMEDOUT);
  // Behind the one that hangs.
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f")), -ETIMEDOUT);
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(1500));
  // Late results touch no memory.
  const std::string before = memory;
  faults.hang("");
  EXPECT_TRUE(test::eventually([&] { return driver->path_call(Kind::path_status, at("f")) == 0; }));
  EXPECT_EQ(memory, before);
  EXPECT_EQ(driver->pread(file, memory.data(), 10, 0), 10);
}

TEST_F(Pvfs2Mock, TransfersUnderWayAreCancelled) {
  for (const Kind kind : {Kind::read, Kind::write}) {
    test::write_file(path("f"), std::string(1000, 'a'));
    File* file = driver->must_open(table.uri_of(path("f")), O_RDWR);
    faults.hang("PVFS_sys_io");
    test::DrivenTransfer transfer(kind, file, memory.data(), 10);
    driver->start(transfer);
    ASSERT_TRUE(test::eventually([&] { return faults.inside() == 1; }));
    driver->queue().cancel(transfer);
    EXPECT_EQ(&driver->next(), &transfer);
    EXPECT_EQ(transfer.result, -ECANCELED);
    // A write that the library still has may not arrive.
    EXPECT_EQ(driver->close(file), kind == Kind::write ? -EIO : 0);
    EXPECT_EQ(memory, std::string(100, 'x'));
    faults.hang("");
    ASSERT_TRUE(test::eventually([&] { return faults.inside() == 0; }));
  }
}

TEST_F(Pvfs2Mock, AServerThatHangsIsDescribedInTime) {
  const std::string listed = path("tab");
  test::write_file(listed, "mock:" + directory.path() + " /slow pvfs2 x 0 0\n");
  faults.hang("PVFS_sys_fs_add");
  const Description description = storage->describe_path("pvfs2:/slow/f?timeout=1&tab=" + listed);
  EXPECT_NE(description.problem.find("do not answer"), std::string::npos) << description.problem;
}

TEST_F(Pvfs2Mock, AListingWithANameThatLeadsElsewhereIsRefused) {
  test::write_file(path("f"), "");
  std::vector<DirectoryEntry> entries;
  const auto list = [&] { return driver->list(table.uri_of(directory.path()), entries); };
  for (const char* name : {"../f", "/etc/passwd", "f/g"}) {
    faults.list_as(name);
    EXPECT_EQ(list(), -EIO) << name;
    EXPECT_TRUE(entries.empty());
  }
  faults.list_as("..");
  EXPECT_EQ(list(), 0);
  EXPECT_TRUE(entries.empty());
  faults.list_as("");
  EXPECT_EQ(list(), 0);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].name, "f");
}

// The servers acknowledge data that does not fit.
TEST_F(Pvfs2Mock, ASyncSaysThatAServerIsFull) {
  const auto file = must_open(at("f"), O_RDWR | O_CREAT);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 3, 0), 3);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  faults.leave_room(0);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 3, 0), 3);
  EXPECT_EQ(driver->simple(Kind::sync, file), -ENOSPC);
  EXPECT_EQ(driver->simple(Kind::sync_data, file), -ENOSPC);
  auto reader = must_open(at("f"), O_RDONLY);
  EXPECT_EQ(driver->simple(Kind::sync, reader), 0) << "it has written nothing";
  reader.close();
  faults.fail("PVFS_sys_statfs", EIO);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0) << "what is not known is not said";
}

TEST_F(Pvfs2Mock, AServerThatIsDownAtFirstIsSaidInTheUsualWord) {
  const std::string listed = path("tab");
  test::write_file(listed, "mock:" + directory.path() + " /first pvfs2 x 0 0\n");
  faults.fail("PVFS_sys_fs_add", ENOPROTOOPT);
  const std::string uri = "pvfs2:/first/f?timeout=1&tab=" + listed;
  EXPECT_EQ(driver->try_open(uri, O_RDONLY), -EHOSTDOWN);
  EXPECT_NE(storage->describe_path(uri).problem.find("see that it runs"), std::string::npos);
}

TEST_F(Pvfs2Mock, TheLibrarysOwnMessagesAreNotSeen) {
  EXPECT_EQ(driver->try_open(at("missing"), O_RDONLY), -ENOENT);
  testing::internal::CaptureStderr();
  faults.fail("PVFS_sys_create", EEXIST);
  EXPECT_EQ(driver->try_open(at("f"), O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Pvfs2Mock, AppendsOfOneProcessTakeTurns) {
  const test::DrivenFile files[] = {must_open(at("f"), O_WRONLY | O_CREAT | O_APPEND),
                                    must_open(at("f"), O_WRONLY | O_APPEND)};
  test::Transfers appends;
  for (std::size_t i = 0; i < 40; ++i)
    driver->queue().submit(appends.emplace_back(Kind::append, files[i % 2], memory.data(), 100));
  driver->queue().flush();
  driver->expect_next(40, 100);
  EXPECT_EQ(test::file_size(path("f")), 4000);
}

}  // namespace
}  // namespace ferry::storage::pvfs2_mock_test
