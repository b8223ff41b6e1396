// Storage `ceph` on a mock of libcephfs: abandoned calls, forks, and checks the library lacks.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"

namespace ferry::storage::ceph_mock_test {
namespace {

using test::eventually;
using test::StorageDriver;

class CephMock : public test::ClientMock {
 protected:
  CephMock() {
    test::write_file(configuration, "/\n");
    use(make_router({.ceph_library = test::ceph_mock}));
  }
  std::string at(const std::string& name, int timeout_s = 1) const {
    return "ceph:" + path(name) + "?conf=" + configuration +
           "&timeout=" + std::to_string(timeout_s);
  }
  std::int64_t rename(const std::string& from, const std::string& to) {
    return driver->rename(at(from), at(to));
  }

  const std::string configuration = directory / "ceph.conf";
  test::CephMockFaults faults;
};

using CephLateCalls = CephMock;

TEST_F(CephMock, FilesAreWrittenAndRead) {
  File* file = driver->must_open(at("f"), O_RDWR | O_CREAT);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 100, 0), 100);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->close(file), 0);
  file = driver->must_open(at("f"), O_RDWR | O_TRUNC);
  EXPECT_EQ(test::file_size(path("f")), 0);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(CephMock, AReadThatLacksItsFirstBytesIsMadeAgain) {
  const std::string bytes = test::pattern(1000, 1);
  test::write_file(path("f"), bytes);
  const auto file = must_open(at("f"), O_RDONLY);
  for (const std::int64_t lost : {1, 100, 999}) {
    memory.assign(2000, '?');
    faults.lose_head(lost);
    EXPECT_EQ(driver->pread(file, memory.data(), 2000, 0), 1000) << lost;
    EXPECT_TRUE(test::same_bytes(memory.substr(0, 1000), bytes)) << lost;
  }
}

// What the library keeps is copied under its lock; where it waits for servers, each piece waits.
TEST_F(CephMock, PiecesOfAWriteAreSmallOnlyIfTheLibraryKeepsThem) {
  constexpr std::int64_t mib = 1 << 20;
  std::string bytes;
  for (std::int64_t i = 0; i < 5 * mib / 8; ++i)
    bytes.append(reinterpret_cast<const char*>(&i), sizeof i);
  const auto longest_of_a_write = [&](int flags) {
    const auto file = must_open(at("f", patient_s), O_RDWR | O_CREAT | O_TRUNC | flags);
    faults.longest_write();
    EXPECT_EQ(driver->pwrite(file, bytes.data(), bytes.size(), 0), 5 * mib);
    EXPECT_EQ(test::read_file(path("f")), bytes);
    return faults.longest_write();
  };
  EXPECT_EQ(longest_of_a_write(0), 4 * mib);
  faults.let_buffer(true);
  EXPECT_EQ(longest_of_a_write(0), mib);
  EXPECT_EQ(longest_of_a_write(O_DSYNC), 4 * mib);
}

// The first call mounts the file system; calls that waited with it have timed out.
TEST_F(CephLateCalls, WhatWaitsForTheMountNeverBegins) {
  const std::string before(1000, 'a');
  test::write_file(path("emptied"), before);
  test::write_file(path("removed"), before);
  faults.hang("ceph_mount");
  EXPECT_EQ(driver->try_open(at("emptied"), O_RDWR | O_TRUNC), -ETIMEDOUT);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("removed")), -ETIMEDOUT);
  faults.hang("");
  await_late_calls();
  EXPECT_EQ(test::read_file(path("emptied")), before);
  EXPECT_EQ(test::read_file(path("removed")), before);
}

// An append that waits for its turn behind one that hangs.
TEST_F(CephLateCalls, WhatWaitsForItsTurnNeverBegins) {
  const auto file = must_open(at("f", patient_s), O_RDWR | O_CREAT);
  const auto late = must_open(at("f"), O_RDWR);
  StorageDriver holder(*storage);
  test::DrivenTransfer first(Kind::append, file, memory.data(), 100);
  faults.hang("ceph_write");
  holder.start(first);
  ASSERT_TRUE(eventually([&] { return faults.inside() == 1; }));
  std::uint64_t end = 0;
  EXPECT_EQ(driver->append(late, memory.data(), 50, end), -ETIMEDOUT);
  faults.hang("");
  EXPECT_EQ(holder.next().result, 100);
  await_late_calls();
  EXPECT_EQ(test::file_size(path("f")), 100);
}

// So do bulk transfers beside a runtime.
TEST_F(CephLateCalls, AnAppendWaitsForThatOfAnotherStorage) {
  const auto file = must_open(at("f", patient_s), O_RDWR | O_CREAT);
  const auto another = make_router({.ceph_library = test::ceph_mock});
  StorageDriver other(*another);
  File* const twin = other.must_open(at("f", patient_s), O_RDWR);
  test::DrivenTransfer first(Kind::append, file, memory.data(), 100);
  test::DrivenTransfer second(Kind::append, twin, memory.data(), 50);
  faults.hang("ceph_write");
  driver->start(first);
  ASSERT_TRUE(eventually([&] { return faults.inside() == 1; }));
  other.start(second);
  for (int i = 0; i < 20 && faults.inside() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  faults.hang("");
  EXPECT_EQ(driver->next().result, 100);
  EXPECT_EQ(other.next().result, 50);
  EXPECT_EQ(other.close(twin), 0);
  EXPECT_EQ(test::file_size(path("f")), 150);
}

// Also if the file is closed meanwhile, and for new opens.
TEST_F(CephLateCalls, ALateWriteOutlivesItsHandles) {
  test::write_file(path("f"), std::string(1000, 'a'));
  File* late = driver->must_open(at("f"), O_RDWR);
  faults.hang("ceph_write");
  EXPECT_EQ(driver->pwrite(late, memory.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->close(late), -EIO) << "it is not known to arrive";
  const auto file = must_open(at("f", patient_s), O_RDWR);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 10), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::sync, file), -ETIMEDOUT);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 1, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->try_open(at("f", patient_s), O_RDWR | O_TRUNC), -ETIMEDOUT);
  EXPECT_EQ(driver->pread(file, memory.data(), 100, 900), 100) << "reads go on";
  faults.hang("");
  EXPECT_TRUE(eventually([&] { return driver->simple(Kind::truncate, file, 10) == 0; }));
  EXPECT_EQ(test::file_size(path("f")), 10);
}

// A short one is made again, unless its call has ended.
TEST_F(CephLateCalls, ALateReadIsNotMadeAgain) {
  test::write_file(path("f"), std::string(100, 'a'));
  const auto file = must_open(at("f"), O_RDONLY);
  const int before = faults.reads();
  faults.hang("ceph_read");
  EXPECT_EQ(driver->pread(file, memory.data(), 200, 0), -ETIMEDOUT);
  faults.hang("");
  await_late_calls();
  EXPECT_EQ(faults.reads(), before + 1);
}

// It has nothing to lose: the close is not in doubt.
TEST_F(CephLateCalls, ALateReadLeavesTheCloseAsItIs) {
  test::write_file(path("f"), std::string(1000, 'a'));
  File* file = driver->must_open(at("f"), O_RDWR);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 100, 0), 100);
  faults.hang("ceph_read");
  EXPECT_EQ(driver->pread(file, memory.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->close(file), 0);
  faults.hang("");
  await_late_calls();
  EXPECT_EQ(test::read_file(path("f")), std::string(100, 'x') + std::string(900, 'a'));
}

// The library holds what was written, and the servers do not answer.
TEST_F(CephLateCalls, ACloseBesideALateReadTellsWhatWritesBecame) {
  File* file = driver->must_open(at("f"), O_RDWR | O_CREAT);
  EXPECT_EQ(driver->pwrite(file, memory.data(), 100, 0), 100);
  faults.hang("ceph_read ceph_fsync");
  EXPECT_EQ(driver->pread(file, memory.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->close(file), -ETIMEDOUT);
  faults.hang("");
  await_late_calls();
}

// It says nothing of writes by a handle that only a question of Ferry's own is about.
TEST_F(CephLateCalls, AnotherHandlesLateWriteLeavesTheCloseAsItIs) {
  test::write_file(path("f"), std::string(1000, 'a'));
  File* late = driver->must_open(at("f"), O_RDWR);
  File* file = driver->must_open(at("f", patient_s), O_RDWR);
  faults.hang("ceph_read ceph_write ceph_fstatx");
  EXPECT_EQ(driver->pwrite(late, memory.data(), 100, 0), -ETIMEDOUT);
  test::DrivenTransfer read(Kind::read, file, arena.data(), 100);
  driver->start(read);
  ASSERT_TRUE(eventually([&] { return faults.inside() == 3; })) << "with the question";
  faults.hang("ceph_write ceph_fstatx");
  EXPECT_EQ(driver->next().result, 100);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->close(late), -EIO);
  faults.hang("");
  await_late_calls();
}

// Of several files, and the file of one of them again when the first is over.
TEST_F(CephMock, ForgottenReadsAreWoken) {
  test::write_file(path("f"), std::string(100, 'a'));
  test::write_file(path("g"), std::string(100, 'b'));
  const auto first = must_open(at("f", 30), O_RDONLY);
  const auto second = must_open(at("g", 30), O_RDWR);
  faults.forget_reads(true);
  for (int times = 0; times < 2; ++times) {
    const auto some = driver->start_pieces(Kind::read, first, arena.data(), 20, 5);
    const auto others = driver->start_pieces(Kind::read, second, arena.data() + 100, 20, 5);
    driver->expect_next(10, 20);
    EXPECT_EQ(arena.view(0, 200), std::string(100, 'a') + std::string(100, 'b'));
  }
}

TEST_F(CephMock, ManySlowReadsAskNoMoreThanOne) {
  test::write_file(path("f"), std::string(100, 'a'));
  const auto one = must_open(at("f", patient_s), O_RDONLY);
  const int number_of_one = faults.last_number();
  const auto many = must_open(at("f", patient_s), O_RDONLY);
  const int number_of_many = faults.last_number();
  faults.hang("ceph_read");
  test::DrivenTransfer read(Kind::read, one, arena.data() + 100, 10);
  driver->start(read);
  ASSERT_TRUE(eventually([&] { return faults.inside() == 1; }));
  const auto reads = driver->start_pieces(Kind::read, many, arena.data(), 10, 10);
  EXPECT_TRUE(eventually([&] { return faults.asked(number_of_one) == 4; }));
  const int asked = faults.asked(number_of_many);
  EXPECT_LE(asked, faults.asked(number_of_one) + 1);
  faults.hang("");
  driver->expect_next(11, 10);
}

// The library drops the slash that shows that.
TEST_F(CephMock, NamesOfDirectoriesAreNotThoseOfFiles) {
  test::write_file(path("f"), "abc");
  ASSERT_EQ(mkdir(path("dir").c_str(), 0755), 0);
  EXPECT_EQ(driver->try_open(at("f/"), O_RDONLY), -ENOTDIR);
  EXPECT_EQ(driver->try_open(at("new/"), O_RDWR | O_CREAT), -EISDIR);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f/")), -ENOTDIR);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("f/")), -ENOTDIR);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("dir/")), -EISDIR);
  EXPECT_EQ(driver->path_call(Kind::remove_directory, at("dir/.")), -EINVAL);
  EXPECT_EQ(driver->path_call(Kind::remove_directory, at("f/")), -ENOTDIR);
  EXPECT_EQ(rename("f/", "g"), -ENOTDIR);
  EXPECT_EQ(rename("f", "g/"), -ENOTDIR);
  EXPECT_EQ(rename("f", "dir/."), -EBUSY);
  EXPECT_EQ(rename("dir/.", "g"), -EBUSY);
  EXPECT_EQ(rename("dir/", "moved/"), 0);
  EXPECT_EQ(driver->path_call(Kind::remove_directory, at("moved/")), 0);
  EXPECT_EQ(test::read_file(path("f")), "abc");
}

}  // namespace
}  // namespace ferry::storage::ceph_mock_test
