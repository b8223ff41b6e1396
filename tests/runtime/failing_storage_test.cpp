// File calls with a page cache over a storage with errors, short transfers and delays: every fault
// is repaired by a retry or reported, and data that fsync confirmed is there.
#include "support/failing_storage.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Placement;
using test::FailingStorage;
using test::pattern;
using test::Random;
using test::read_at;
using test::same_bytes;

constexpr std::uint32_t page = 4096;
constexpr std::uint32_t threads = 3;

class FailingStorageTest : public testing::Test {
 protected:
  void SetUp() override { make(8); }
  void make(std::uint32_t pages) {
    files.reset();
    auto failing = std::make_unique<FailingStorage>(random.fork());
    storage = failing.get();
    rig =
        std::make_unique<test::ServerRig>(test::small_geometry(1, threads + 1), std::move(failing));
    memory = rig->add_cache({page, pages, 16, threads + 1, 4});
    ASSERT_LE(memory + (threads + 1) * page, rig->heap() + test::ServerRig::heap_bytes);
    files.emplace(calls(0));
  }
  test::Calls calls(std::uint32_t group) { return rig->calls(group, Placement::compute); }
  void fail_writes(int error) const {
    storage->faults.error = error;
    storage->faults.writes = 1;
  }

  Random random;
  FailingStorage* storage = nullptr;
  std::unique_ptr<test::ServerRig> rig;
  unsigned char* memory = nullptr;   // a page for each group, inside the arena
  std::optional<test::Calls> files;  // the first group's
};

TEST_F(FailingStorageTest, AWriteBackErrorIsReportedOncePerHandle) {
  const int one = files->open("f", O_RDWR | O_CREAT);
  const int other = files->open("f", O_RDWR);
  const std::string data = pattern(3 * page, 1);
  ASSERT_EQ(files->pwrite(one, data.data(), data.size(), 0), 3 * page);
  fail_writes(ENOSPC);
  EXPECT_EQ(files->fsync(one), -ENOSPC);
  storage->faults.stop();
  EXPECT_EQ(files->fsync(one), 0) << "reported already";
  EXPECT_TRUE(same_bytes(storage->contents("f"), data)) << "what failed was tried again";
  EXPECT_EQ(files->fdatasync(other), -ENOSPC);
  EXPECT_EQ(files->close(other), 0);
  EXPECT_EQ(files->close(one), 0);
  const int later = files->open("f", O_RDWR);
  EXPECT_EQ(files->fsync(later), 0) << "what came before the open is not its business";
  EXPECT_EQ(files->close(later), 0);
}

// Otherwise others' writes between two truncations would be lost.
TEST_F(FailingStorageTest, OpeningATruncatedFileCutsItOnce) {
  const std::string data = pattern(3 * page, 1);
  storage->set_contents("f", data);
  const int one = files->open("f", O_RDWR | O_TRUNC);
  ASSERT_GT(one, 0);
  EXPECT_EQ(storage->truncations, 1U);
  EXPECT_EQ(storage->contents("f"), "");
  ASSERT_EQ(files->pwrite(one, data.data(), data.size(), 0), 3 * page);
  const int other = files->open("f", O_WRONLY | O_CREAT | O_TRUNC);
  ASSERT_GT(other, 0);
  EXPECT_EQ(storage->truncations, 2U) << "also where something is dirty";
  EXPECT_EQ(read_at(*files, one, 1, 0), "") << "the same file";
  EXPECT_EQ(files->close(one), 0);
  EXPECT_EQ(files->close(other), 0);
  EXPECT_EQ(storage->contents("f"), "");
  const int made = files->open("new", O_RDWR | O_CREAT | O_EXCL | O_TRUNC);
  ASSERT_GT(made, 0);
  EXPECT_EQ(storage->truncations, 2U) << "it was made by this open, and others may have it already";
  EXPECT_EQ(files->close(made), 0);
}

TEST_F(FailingStorageTest, OnlyASyncSaysThatOneFollows) {
  const int file = files->open("f", O_RDWR | O_CREAT);
  const std::string data = pattern(3 * page, 1);
  const auto write = [&] { ASSERT_EQ(files->pwrite(file, data.data(), data.size(), 0), 3 * page); };
  write();
  ASSERT_EQ(files->flush(file), 0);
  EXPECT_EQ(storage->writes_for_sync, 0U);
  EXPECT_GT(storage->other_writes, 0U);
  const std::uint64_t others = storage->other_writes;
  write();
  ASSERT_EQ(files->fsync(file), 0);
  const std::uint64_t after_one = storage->writes_for_sync;
  EXPECT_GT(after_one, 0U);
  write();
  ASSERT_EQ(files->fdatasync(file), 0);
  EXPECT_GT(storage->writes_for_sync, after_one);
  EXPECT_EQ(storage->other_writes, others);
  write();
  ASSERT_EQ(files->close(file), 0);
  EXPECT_GT(storage->other_writes, others);
  EXPECT_TRUE(same_bytes(storage->contents("f"), data));
}

TEST_F(FailingStorageTest, AnErrorOfAnEvictionIsReportedByTheFilesOwnClose) {
  make(4);
  storage->set_contents("other", pattern(40 * page, 2));
  const int file = files->open("f", O_RDWR | O_CREAT);
  const int other = files->open("other", O_RDONLY);
  const std::string data = pattern(2 * page, 1);
  ASSERT_EQ(files->pwrite(file, data.data(), data.size(), 0), 2 * page);
  storage->faults.writes = 1;
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(read_at(*files, other, page, std::int64_t{page} * i).size(), page);
  storage->faults.stop();
  EXPECT_GT(storage->injected, 0U);
  EXPECT_EQ(files->close(other), 0) << "another file's error";
  EXPECT_EQ(files->close(file), -EIO);
  EXPECT_TRUE(same_bytes(storage->contents("f"), data));
}

TEST_F(FailingStorageTest, AFailedSyncIsReportedAndAShortWriteBackIsContinued) {
  make(4);
  const int file = files->open("f", O_RDWR | O_CREAT);
  const std::string data = pattern(2 * page, 1);
  ASSERT_EQ(files->pwrite(file, data.data(), data.size(), 0), 2 * page);
  storage->faults.syncs = 1;
  EXPECT_EQ(files->fsync(file), -EIO);
  storage->faults.stop();
  EXPECT_EQ(files->fsync(file), 0);
  ASSERT_EQ(files->pwrite(file, data.data(), page, page), page);
  const std::uint64_t before = storage->injected;
  storage->faults.short_writes = 1;
  EXPECT_EQ(files->flush(file), 0);
  EXPECT_GT(storage->injected, before);
  storage->faults.stop();
  EXPECT_TRUE(same_bytes(storage->contents("f"), data.substr(0, page) + data.substr(0, page)));
  EXPECT_EQ(files->close(file), 0);
}

// Dirty pages of one run fill the cache, so every write needs a frame that a flight gives back.
TEST_F(FailingStorageTest, FlightsThatWriteLessEachTimeGiveFramesBack) {
  make(6);
  const int file = files->open("f", O_RDWR | O_CREAT);
  storage->faults.short_writes = 1;
  std::string model;
  test::within_patience("writes through flights that are short", [&] {
    for (int i = 0; i < 60; ++i) {
      const std::string next = pattern(page, static_cast<std::uint64_t>(i));
      ASSERT_EQ(files->pwrite(file, next.data(), page, std::int64_t{page} * i), page);
      model += next;
    }
    EXPECT_EQ(files->fsync(file), 0);
  });
  EXPECT_TRUE(same_bytes(storage->contents("f"), model));
  EXPECT_EQ(files->close(file), 0);
}

TEST_F(FailingStorageTest, AStorageThatWritesNothingFails) {
  make(6);
  const int file = files->open("f", O_RDWR | O_CREAT);
  const std::string data = pattern(page, 1);
  std::atomic<bool> writes_nothing = true;
  storage->instead = [&](storage::Operation& operation) {
    if (!writes_nothing || operation.kind != storage::Kind::write) return false;
    operation.result = 0;
    return true;
  };
  std::int64_t acknowledged = 0;
  test::within_patience("writes to a storage that takes nothing", [&] {
    for (int i = 0; i < 60; ++i) {
      const std::int64_t got = files->pwrite(file, data.data(), page, std::int64_t{page} * i);
      ASSERT_TRUE(got == page || got == -EIO) << got;
      if (got == page) ++acknowledged;
    }
    EXPECT_EQ(files->fsync(file), -EIO);
  });
  EXPECT_LE(acknowledged, 6) << "no more than the cache has pages for";
  writes_nothing = false;
  EXPECT_EQ(files->fsync(file), 0);
  for (std::int64_t i = 0; i < acknowledged; ++i)
    EXPECT_TRUE(same_bytes(storage->contents("f", static_cast<std::size_t>(i * page), page), data));
  EXPECT_EQ(files->close(file), 0);
}

// A call reports one error, and none is lost by that.
TEST_F(FailingStorageTest, WhereFlushAndSyncFailBothAreReported) {
  const int file = files->open("f", O_RDWR | O_CREAT);
  const int other = files->open("f", O_RDWR);
  ASSERT_EQ(files->pwrite(file, "data", 4, 0), 4);
  storage->faults.error = ENOSPC;
  storage->faults.sync_error = EIO;
  storage->faults.writes = 1;
  storage->faults.syncs = 1;
  EXPECT_EQ(files->fsync(file), -EIO);
  storage->faults.stop();
  EXPECT_EQ(files->fdatasync(file), -ENOSPC);
  EXPECT_EQ(files->fsync(file), 0);
  EXPECT_EQ(files->fsync(other), -ENOSPC);
  EXPECT_EQ(files->fsync(other), 0);
  EXPECT_EQ(storage->contents("f"), "data");
  ASSERT_EQ(files->pwrite(file, "DATA", 4, 0), 4);
  storage->faults.writes = 1;
  storage->faults.syncs = 1;
  EXPECT_EQ(files->fsync(file), -EIO);
  storage->faults.stop();
  EXPECT_EQ(files->close(file), -ENOSPC);
  EXPECT_EQ(files->close(other), -ENOSPC);
  EXPECT_EQ(storage->contents("f"), "DATA");
}

// ---- whose handle writes back

TEST_F(FailingStorageTest, NothingIsWrittenBackByAHandleThatAppends) {
  const std::string first = pattern(2 * page, 1);
  storage->set_contents("f", first);
  const int appender = files->open("f", O_WRONLY | O_APPEND);
  const int file = files->open("f", O_RDWR);
  ASSERT_EQ(files->pwrite(file, "place", 5, 100), 5);
  ASSERT_EQ(files->fsync(file), 0);
  std::string model = first;
  model.replace(100, 5, "place");
  EXPECT_TRUE(same_bytes(storage->contents("f"), model));
  // Nor when the other one is closed, by either handle.
  ASSERT_EQ(files->pwrite(file, "again", 5, 200), 5);
  ASSERT_EQ(files->close(file), 0);
  model.replace(200, 5, "again");
  EXPECT_TRUE(same_bytes(storage->contents("f"), model));
  EXPECT_EQ(storage->appends, 0U);
  ASSERT_EQ(files->pwrite(appender, "end", 3, 0), 3);
  EXPECT_TRUE(same_bytes(storage->contents("f"), model + "end"));
  const int later = files->open("f", O_RDWR);
  ASSERT_EQ(files->pwrite(later, "later", 5, 300), 5);
  ASSERT_EQ(files->fsync(appender), 0) << "writes back what others wrote";
  model.replace(300, 5, "later");
  EXPECT_TRUE(same_bytes(storage->contents("f"), model + "end"));
  EXPECT_EQ(files->close(appender), 0);
  EXPECT_EQ(files->close(later), 0);
}

// Writes through such a handle are in storage when the call returns, for any call and placement.
TEST_F(FailingStorageTest, ASynchronousHandleWritesThrough) {
  for (const int flag : {O_SYNC, O_DSYNC}) {
    for (const Placement placement :
         {Placement::compute, Placement::host, Placement::service, Placement::automatic}) {
      make(8);
      files->use(placement);
      auto others = calls(1);
      std::string model = pattern(3 * page, 1);
      storage->set_contents("f", model);
      const int file = files->open("f", O_RDWR | flag);
      const int plain = others.open("f", O_RDWR);
      std::uint64_t writes = 0;
      const auto expect_written = [&](std::int64_t got, std::size_t at, const std::string& data) {
        EXPECT_EQ(got, static_cast<std::int64_t>(data.size()));
        model.replace(at, data.size(), data);
        EXPECT_TRUE(same_bytes(storage->contents("f"), model));
        EXPECT_GT(storage->synchronous_writes, writes);
        writes = storage->synchronous_writes;
      };
      std::string data = pattern(500, 2);
      expect_written(files->pwrite(file, data.data(), data.size(), 100), 100, data);
      std::memcpy(memory, data.data(), 300);
      expect_written(files->pwrite(file, memory, 300, page - 100), page - 100, data.substr(0, 300));
      device::Pending pending = files->pwrite_async(file, memory, 300, 2 * page);
      expect_written(files->wait(pending), 2 * page, data.substr(0, 300));
      const device::IoVector pieces[2] = {{data.data(), 20}, {data.data() + 20, 30}};
      expect_written(files->pwritev(file, pieces, 2, 50), 50, data.substr(0, 50));
      // Beside other handles' dirty data; older data is not written later.
      ASSERT_EQ(others.pwrite(plain, "older and longer", 16, 1000), 16);
      model.replace(1000, 16, "older and longer");
      expect_written(files->pwrite(file, "newer", 5, 1000), 1000, "newer");
      EXPECT_EQ(read_at(others, plain, 16, 1000), "newer and longer");
      EXPECT_EQ(others.close(plain), 0);
      EXPECT_TRUE(same_bytes(storage->contents("f"), model));
      EXPECT_EQ(files->close(file), 0);
    }
  }
}

TEST_F(FailingStorageTest, ASynchronousWriteBesideAnErrorIsReported) {
  storage->set_contents("f", pattern(page, 1));
  const int plain = files->open("f", O_RDWR);
  const int file = files->open("f", O_RDWR | O_DSYNC);
  ASSERT_EQ(files->pwrite(plain, "older", 5, 0), 5);
  fail_writes(ENOSPC);
  EXPECT_EQ(files->pwrite(file, "newer", 5, 2), -ENOSPC) << "not held in the cache";
  storage->faults.stop();
  EXPECT_EQ(files->pwrite(file, "newer", 5, 2), 5);
  EXPECT_EQ(storage->contents("f", 0, 7), "olnewer");
  EXPECT_EQ(files->close(file), -ENOSPC);
  EXPECT_EQ(files->close(plain), -ENOSPC);
}

// ---- a file whose write-back fails

TEST_F(FailingStorageTest, AFullStorageIsTheBusinessOfItsFileAlone) {
  make(32);
  const std::string data = pattern(200 * page, 2);
  storage->set_contents("other", data);
  storage->fail_writes_to("full");
  fail_writes(ENOSPC);
  const int full = files->open("full", O_RDWR | O_CREAT);
  const int other = files->open("other", O_RDONLY);
  const int healthy = files->open("healthy", O_RDWR | O_CREAT);
  std::string model;
  for (std::int64_t got = page; got == page;) {
    const std::string next = pattern(page, model.size());
    got = files->pwrite(full, next.data(), page, static_cast<std::int64_t>(model.size()));
    if (got == page) model += next;
    EXPECT_TRUE(got == page || got == -ENOSPC) << got;
    ASSERT_LE(model.size(), 32U * page);
  }
  // Of about as many requests as there are flights, not one for each page that is wanted.
  EXPECT_LE(storage->failed_writes, 16U);
  const std::uint64_t failed = storage->failed_writes;
  for (const Placement placement : {Placement::compute, Placement::automatic, Placement::host}) {
    files->use(placement);
    for (std::size_t at = 0; at < data.size(); at += page)
      ASSERT_EQ(read_at(*files, other, page, static_cast<std::int64_t>(at)), data.substr(at, page));
    ASSERT_EQ(files->pwrite(healthy, data.data(), data.size(), 0), std::ssize(data));
    ASSERT_EQ(files->fsync(healthy), 0);
    EXPECT_TRUE(same_bytes(read_at(*files, full, model.size(), 0), model));
  }
  EXPECT_EQ(storage->failed_writes, failed) << "nobody asked for that";
  EXPECT_TRUE(same_bytes(storage->contents("healthy"), data));
  EXPECT_EQ(files->fsync(full), -ENOSPC);
  EXPECT_EQ(files->fsync(full), -ENOSPC);
  EXPECT_EQ(storage->failed_writes, failed + 2) << "one request asks";
  storage->faults.stop();
  EXPECT_EQ(files->fsync(full), 0);
  EXPECT_TRUE(same_bytes(storage->contents("full"), model));
  EXPECT_EQ(files->close(full), 0);
  EXPECT_EQ(files->close(other), 0);
  EXPECT_EQ(files->close(healthy), 0);
}

// Data that cannot be written back now is only in the cache: the host must not miss it.
TEST_F(FailingStorageTest, AHostReadSeesWhatCannotBeWrittenBack) {
  storage->set_contents("f", pattern(2 * page, 1));
  const int file = files->open("f", O_RDWR);
  std::string model = storage->contents("f");
  ASSERT_EQ(files->pwrite(file, "new", 3, 100), 3);
  model.replace(100, 3, "new");
  storage->faults.writes = 1;
  files->use(Placement::host);
  EXPECT_TRUE(same_bytes(read_at(*files, file, 2 * page, 0), model));
  device::Pending pending = files->pread_async(file, memory, page, 0);
  EXPECT_EQ(files->wait(pending), page);
  EXPECT_TRUE(same_bytes({reinterpret_cast<char*>(memory), page}, model.substr(0, page)));
  storage->faults.stop();
  EXPECT_EQ(files->close(file), -EIO);
}

// An older write-back must not undo a write by the host.
TEST_F(FailingStorageTest, AHostWriteStaysBesideWhatCannotBeWrittenBack) {
  for (int round = 0; round < 30; ++round) {
    const int file = files->open("f", O_RDWR | O_CREAT);
    files->use(Placement::compute);
    ASSERT_EQ(files->pwrite(file, "older", 5, 100), 5);
    storage->faults.writes = 2;
    files->use(Placement::host);
    bool written = false;
    for (int i = 0; i < 1000 && !written; ++i)
      written = files->pwrite(file, "NEWER", 5, 100) == 5;
    ASSERT_TRUE(written);
    storage->faults.stop();
    EXPECT_EQ(read_at(*files, file, 5, 100), "NEWER");
    files->use(Placement::compute);
    EXPECT_EQ(read_at(*files, file, 5, 100), "NEWER");
    files->fsync(file);
    EXPECT_EQ(storage->contents("f").substr(100), "NEWER");
    EXPECT_EQ(files->close(file), 0);
  }
}

// A failed call has no effect: its bytes are visible to no reader.
TEST_F(FailingStorageTest, AFailedWriteLeavesNothingInItsPage) {
  std::string model = pattern(page, 1);
  storage->set_contents("f", model);
  const int file = files->open("f", O_RDWR);
  ASSERT_EQ(read_at(*files, file, page, 0), model);      // the page is there, whole
  for (const std::size_t at : {0U, 100U, 200U, 300U}) {  // as many ranges as its list takes
    ASSERT_EQ(files->pwrite(file, "new", 3, static_cast<std::int64_t>(at)), 3);
    model.replace(at, 3, "new");
  }
  storage->faults.writes = 1;
  EXPECT_EQ(files->pwrite(file, "failed", 6, 400), -EIO);
  EXPECT_TRUE(same_bytes(read_at(*files, file, page, 0), model));
  storage->faults.stop();
  EXPECT_TRUE(same_bytes(read_at(*files, file, page, 0), model));
  EXPECT_EQ(files->close(file), -EIO);
  EXPECT_TRUE(same_bytes(storage->contents("f"), model));
}

// Data that the last writable handle could not write is lost, and others see the file without it.
TEST_F(FailingStorageTest, WhatACloseCouldNotWriteIsNoPartOfTheFile) {
  storage->set_contents("f", "there");
  const int writer = files->open("f", O_RDWR);
  const int reader = files->open("f", O_RDONLY);
  ASSERT_EQ(files->pwrite(writer, "lost", 4, 100), 4);
  ASSERT_EQ(read_at(*files, reader, 200, 0).size(), 104U);
  storage->faults.writes = 1;
  EXPECT_EQ(files->close(writer), -EIO);
  storage->faults.stop();
  EXPECT_EQ(read_at(*files, reader, 200, 0), "there");
  device::FileStatus status{};
  EXPECT_EQ(files->fstat(reader, &status), 0);
  EXPECT_EQ(status.size_bytes, 5U);
  EXPECT_EQ(files->close(reader), -EIO) << "every handle that was open reports the error once";
}

// Each thread owns every third piece of a file, four pieces per page, so that a page has space for
// all ranges and nothing is ever dropped.
class Faults : public FailingStorageTest {
 protected:
  static constexpr std::size_t piece = page / 4;
  static constexpr std::size_t pieces = 90;
  // The possible contents of a piece, byte by byte: the last write, and later failed ones.
  using Versions = std::vector<std::string>;

  void work(std::uint32_t index, std::uint64_t operations, Random& own) {
    auto group = rig->calls(index);
    int file = group.open("f", O_RDWR);
    for (std::uint64_t i = 0; i < operations && !failed; ++i) {
      const std::size_t number = own.below(pieces / threads) * threads + index;
      group.use(own.one_in(2) ? Placement::compute : Placement::host);
      const std::uint64_t what = own.below(40);
      if (what == 0 && group.fsync(file) == 0) {
        for (std::size_t k = index; k < pieces; k += threads)
          check(k, storage->contents("f", k * piece, piece), "after an fsync");
      } else if (what == 1) {
        group.close(file);
        file = group.open("f", O_RDWR);
        if (file <= 0) fail("open");
      } else if (what < 20) {
        write(group, file, number, index, own);
      } else {
        std::string got(piece, '?');
        // Inside the arena or not.
        void* to = own.one_in(2) ? memory + index * page : static_cast<void*>(got.data());
        const std::int64_t bytes =
            group.pread(file, to, piece, static_cast<std::int64_t>(number * piece));
        if (to != got.data()) std::memcpy(got.data(), to, piece);
        if (bytes > 0) check(number, got.substr(0, static_cast<std::size_t>(bytes)), "read");
      }
    }
    group.close(file);
  }
  void write(test::Calls& group, int file, std::size_t number, std::uint32_t index, Random& own) {
    Versions& mine = model[number];
    std::string data = pattern(piece, own.bits());
    void* from = data.data();
    if (own.one_in(2)) from = std::memcpy(memory + index * page, data.data(), piece);
    const std::int64_t got =
        group.pwrite(file, from, piece, static_cast<std::int64_t>(number * piece));
    if (got == static_cast<std::int64_t>(piece)) {
      mine.assign(1, std::move(data));
    } else {
      if (got > 0) {
        const auto done = static_cast<std::size_t>(got);
        for (std::string& one : mine)
          one.replace(0, done, data, 0, done);
      }
      mine.push_back(std::move(data));
    }
  }
  void check(std::size_t number, const std::string& got, const char* what) {
    const Versions& mine = model[number];
    for (std::size_t at = 0; at < got.size(); ++at) {
      bool known = false;
      for (const std::string& one : mine)
        known = known || one[at] == got[at];
      if (known) continue;
      return fail(std::string(what) + ": piece " + std::to_string(number) + " is wrong at " +
                  std::to_string(at));
    }
  }
  void fail(const std::string& what) {
    if (!failed.exchange(true)) ADD_FAILURE() << what;
  }

  std::vector<Versions> model;
  std::atomic<bool> failed{false};
};

TEST_F(Faults, LoseNothingThatWasAcknowledged) {
  for (const std::uint32_t pages : {4U, 10U, 40U}) {
    make(pages);
    const std::string first = pattern(pieces * piece, pages);
    storage->set_contents("f", first);
    model.assign(pieces, {});
    for (std::size_t i = 0; i < pieces; ++i)
      model[i].push_back(first.substr(i * piece, piece));
    // Stays open, so that no close gives up what it cannot write.
    auto keeper = calls(threads);
    const int file = keeper.open("f", O_RDWR);
    ASSERT_GT(file, 0);
    storage->faults.error = random.one_in(2) ? ENOSPC : EIO;
    storage->faults.reads = 30;
    storage->faults.writes = 6;
    storage->faults.short_reads = 6;
    storage->faults.short_writes = 12;
    storage->faults.syncs = 6;
    storage->faults.delays = 5;
    test::at_once("threads over a failing storage", threads, random,
                  [this](std::uint32_t i, Random& own) { work(i, test::scaled(20'000), own); });
    EXPECT_GT(storage->injected, 0U);
    storage->faults.stop();
    keeper.fsync(file);  // reports what failed meanwhile
    EXPECT_EQ(keeper.fsync(file), 0);
    for (std::size_t i = 0; i < pieces && !failed; ++i)
      check(i, storage->contents("f", i * piece, piece), "in the end");
    EXPECT_EQ(keeper.close(file), 0);
    if (failed) return;
  }
}

}  // namespace
}  // namespace ferry
