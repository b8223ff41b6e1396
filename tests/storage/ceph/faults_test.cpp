// A Ceph cluster whose servers end, hang or return while requests are in flight: the rig's. Tests
// that kill servers need one that stores in files (FERRY_TEST_CEPH_DISK is set), and some need
// ceph-fuse's mount.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/ceph_servers.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::storage::ceph_faults_test {
namespace {

using test::pattern;
using test::same_bytes;

constexpr std::size_t mib = 1 << 20;

class CephFaults : public test::CephServers {
 protected:
  // Writes to a new file until it is full. `closed`: the result of closing it.
  void fill_small_pool(const std::string& path, std::int64_t& closed) {
    Layout layout;
    layout.pool = "small";
    ASSERT_EQ(driver->layout_call(Kind::open, path, layout), 0);
    EXPECT_EQ(layout.pool, "small");
    File* file = driver->must_open(path, O_RDWR);
    // It may count as full still because of what was removed from it a moment ago.
    ASSERT_TRUE(test::eventually(
        [&] { return driver->pwrite(file, arena.data(), 8 * mib, 0) == std::int64_t{8 * mib}; }));
    ASSERT_EQ(driver->simple(Kind::sync, file), 0);
    EXPECT_TRUE(test::eventually([&] {
      std::int64_t result = driver->pwrite(file, arena.data(), 4096, 8 * mib);
      if (result == 4096) result = driver->simple(Kind::sync, file);
      EXPECT_TRUE(result == 0 || result == -ENOSPC) << result;
      return result == -ENOSPC;
    }));
    closed = driver->close(file);
  }
};

using CephKills = CephFaults;

TEST_F(CephFaults, EveryKindOfCallEndsWhenTheServersHang) {
  File* file = make_and_reopen("f", pattern(4 * mib, 1), 1).release();
  // The first write asks the servers whether it is allowed.
  EXPECT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 10, 0); }), 10);
  EXPECT_EQ(unhurried([&] { return driver->simple(Kind::sync, file); }), 0);
  rig("freeze");
  EXPECT_EQ(driver->pread(file, arena.data(), 4 * mib, 0), -ETIMEDOUT);
  // The client's memory accepts a write, which then cannot be made durable.
  EXPECT_EQ(driver->pwrite(file, arena.data(), 10, 0), 10);
  EXPECT_EQ(driver->simple(Kind::sync, file), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 100), -ETIMEDOUT);
  const std::int64_t status = driver->simple(Kind::file_status, file);
  EXPECT_TRUE(status == 0 || status == -ETIMEDOUT) << status;
  EXPECT_EQ(driver->try_open(at("g", 1), O_RDWR | O_CREAT), -ETIMEDOUT);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("absent", 1)), -ETIMEDOUT);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("absent", 1)), -ETIMEDOUT);
  // Its calls may still be in flight.
  const std::int64_t closed = driver->close(file);
  EXPECT_TRUE(closed == 0 || closed == -EIO || closed == -ETIMEDOUT) << closed;
  rig("thaw");
  made.push_back(at("g"));
  EXPECT_EQ(unhurried([&] { return driver->try_open(at("g", 1), O_RDWR | O_CREAT); }), 0);
  EXPECT_EQ(driver->try_open(at("f"), O_RDONLY), 0);
}

// Late answers have no receiver.
TEST_F(CephFaults, ALateAnswerTouchesNothing) {
  const std::string data = pattern(mib, 1);
  File* file = make_and_reopen("f", data, 2).release();
  expect_late_answers_to_touch_nothing(file, data);
  // Also if the late call itself ends a moment later than the one that was made after it.
  EXPECT_EQ(unhurried([&] { return driver->simple(Kind::sync, file); }), 0);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(CephFaults, TransfersUnderWayCanBeCancelled) {
  const auto file = make_and_reopen("f", pattern(4 * mib, 1));
  expect_transfers_to_be_cancelled(file);
}

// More calls than threads hang at once; all end, and others continue.
TEST_F(CephFaults, ManyCallsThatHangAllEnd) {
  const auto file = make_and_reopen("f", pattern(4 * mib, 1), 2);
  rig("freeze");
  test::Transfers reads;
  for (std::size_t i = 0; i < 64; ++i)
    driver->start(reads.emplace_back(Kind::read, file, arena.data() + i * 4096, 4096,
                                     static_cast<off_t>(i * 65'536)));
  driver->expect_next(reads.size(), -ETIMEDOUT);
  rig("thaw");
  const auto read_all = [&] { return driver->pread(file, arena.data(), 4 * mib, 0); };
  ASSERT_EQ(unhurried(read_all), std::int64_t{4 * mib});
  EXPECT_TRUE(same_bytes(arena.view(0, 4 * mib), pattern(4 * mib, 1)));
}

TEST_F(CephFaults, TheStorageCanBeLeftWhileServersHang) {
  File* file = make_and_reopen("f", pattern(mib, 1), 2).release();
  rig("freeze");
  ASSERT_EQ(driver->pread(file, arena.data(), mib, 0), -ETIMEDOUT);
  driver->close(file);
  test::within_patience("the end of the storage", [&] {
    driver.reset();
    storage.reset();
  });
  rig("thaw");
  make_storage();
}

// The library forgets reads of a file that others have in flight, too, while another client writes.
TEST_F(CephFaults, ReadsBesideWritesOfAnotherClientEnd) {
  constexpr std::size_t piece = 128 << 10;
  constexpr std::size_t pieces = 10;
  const auto written = make_file("f", pattern(piece * pieces, 1));
  const auto other = make_router();
  test::StorageDriver reader(*other);
  const std::jthread writer([&](const std::stop_token& over) {
    while (!over.stop_requested()) {
      EXPECT_EQ(driver->pwrite(written, arena.data(), piece, 0), std::int64_t{piece});
      EXPECT_EQ(driver->simple(Kind::sync, written), 0);
    }
  });
  std::string memory(piece * pieces, 'x');
  for (int times = 0; times < 30; ++times) {
    File* file = reader.must_open(at("f"), O_RDONLY);
    const auto reads = reader.start_pieces(Kind::read, file, memory.data(), piece, pieces);
    reader.expect_next(pieces, piece);
    EXPECT_EQ(reader.close(file), 0);
    EXPECT_TRUE(same_bytes(memory, pattern(piece * pieces, 1)));
  }
}

// The library's readahead would find the second half, and keep it while the servers let no client
// cache the file.
TEST_F(CephFaults, ReadsFindWhatOthersWroteAfterTheyReadTheBytesBefore) {
  const std::string before(24, 'a');
  const std::string after(24, 'b');
  const auto other = make_router();
  test::StorageDriver reader(*other);
  std::string memory = before;
  for (int times = 0; times < 10; ++times) {
    const std::string name = "f" + std::to_string(times);
    const auto written = make_file(name, before);
    const test::DrivenFile file(reader, reader.must_open(at(name), O_RDWR));
    EXPECT_TRUE(reader.finds(file, before.substr(0, 12), memory.data()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // in which readahead would arrive
    EXPECT_EQ(write(written, after), 24);
    EXPECT_EQ(driver->simple(Kind::sync, written), 0);
    EXPECT_EQ(reader.simple(Kind::file_status, file), 0) << "lets clients cache it";
    EXPECT_TRUE(reader.finds(file, after, memory.data()));
  }
}

// Windows of small reads in order come and go as the servers let this client cache the file. They
// do in some of every other pass, in which no other client has it open.
TEST_F(CephFaults, SmallReadsInOrderFindWhatOthersHaveSynced) {
  constexpr std::size_t piece = 4096;
  constexpr std::size_t pieces = 64;
  const auto contents = [](std::int64_t version) {
    return std::string(piece * pieces, 'a' + static_cast<char>(version % 26));
  };
  make_file("f", contents(0)).close();
  const auto other = make_router();
  test::StorageDriver reader(*other);
  const test::DrivenFile file(reader, reader.must_open(at("f"), O_RDWR));
  std::atomic<std::int64_t> begun{0};
  std::atomic<std::int64_t> synced{0};
  std::mutex writing;
  const std::jthread writer([&](const std::stop_token& over) {
    for (std::int64_t version = 1; !over.stop_requested(); ++version) {
      {
        const std::lock_guard lock(writing);
        const auto written = must_open(at("f"), O_RDWR);
        begun = version;
        EXPECT_EQ(write(written, contents(version)), std::ssize(contents(version)));
        EXPECT_EQ(driver->simple(Kind::sync, written), 0);
        synced = version;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(version % 20));
    }
  });
  std::string memory(piece, 'x');
  std::unique_lock quiet(writing, std::defer_lock);
  for (std::size_t i = 0; i < test::scaled(20) * pieces; ++i) {
    if (i % (2 * pieces) == pieces) quiet.lock();
    const std::int64_t oldest = synced;
    const auto offset = static_cast<std::int64_t>(i % pieces * piece);
    ASSERT_EQ(reader.pread(file, memory.data(), piece, offset), std::int64_t{piece});
    const std::int64_t newest = begun;
    for (const char found : memory) {
      const std::int64_t age = (newest % 26 - (found - 'a') + 26) % 26;
      ASSERT_LE(age, newest - oldest) << "read " << i;
    }
    if (quiet && i % pieces == pieces - 1) quiet.unlock();
    if (i % pieces == 0) {
      ASSERT_EQ(reader.simple(Kind::file_status, file), 0) << "lets clients cache it";
    }
  }
}

// Static objects whose destruction takes a while, as in large programs. They are older than the
// library's, so they are destroyed later.
void linger_at_exit() {
  std::atexit([] { std::this_thread::sleep_for(std::chrono::seconds(3)); });
}

TEST_F(CephFaults, AProcessMayEndAsAClient) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  made.push_back(at("f"));
  const auto open_and_exit = [&] {
    linger_at_exit();
    std::exit(driver->try_open(at("f"), O_RDWR | O_CREAT) == 0 ? 7 : 1);
  };
  EXPECT_EXIT(open_and_exit(), testing::ExitedWithCode(7), "");
}

TEST_F(CephFaults, AProcessMayEndWhileServersHang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  rig("freeze");
  const auto fail_and_exit = [&] {
    linger_at_exit();
    const std::int64_t result = driver->try_open(at("f", 1), O_RDONLY);
    driver.reset();
    storage.reset();
    std::exit(result == -ETIMEDOUT ? 7 : 1);
  };
  EXPECT_EXIT(fail_and_exit(), testing::ExitedWithCode(7), "");
}

// The pool `small` of the rig has a quota, which the monitor enforces with some delay.
TEST_F(CephFaults, AFullPoolSaysSo) {
  made.push_back(at("f"));
  std::int64_t closed = -1;
  fill_small_pool(at("f"), closed);
  EXPECT_EQ(closed, 0);
}

TEST_F(CephFaults, AFullPoolSaysSoThroughTheMount) {
  NEEDS_A_MOUNT();
  made.push_back(at("f"));
  std::int64_t closed = -1;
  fill_small_pool(mounted("f"), closed);
  // The kernel flushes the file, and ceph-fuse may say so once more.
  EXPECT_TRUE(closed == 0 || closed == -ENOSPC) << closed;
}

// The kernel ends a call on ceph-fuse when that has answered, and nothing bounds how long it takes.
TEST_F(CephFaults, TransfersOfTheMountComeBackOnceWhenTheServersDo) {
  NEEDS_A_MOUNT();
  const std::string data = pattern(4 * mib, 1);
  make_file("f", data).close();
  const auto file = must_open(mounted("f"), O_RDONLY);
  rig("freeze");
  test::DrivenTransfer read(Kind::read, file, arena.data(), 4 * mib);
  driver->start(read);
  driver->queue().cancel(read);
  rig("thaw");
  EXPECT_EQ(&driver->next(), &read);
  EXPECT_TRUE(read.result == -ECANCELED || read.result == std::int64_t{4 * mib}) << read.result;
  std::memset(arena.data(), 0x5a, 4 * mib);
  EXPECT_TRUE(driver->finds(file, data, arena.data() + 4 * mib));
  EXPECT_TRUE(same_bytes(arena.view(0, 4 * mib), std::string(4 * mib, 0x5a)));
}

// ---- servers that are killed, and come back with what they stored

TEST_F(CephKills, ServersThatAreNotThereAreToldInTime) {
  NEEDS_A_CLUSTER_ON_DISK();
  make_file("f", pattern(mib, 1)).close();
  make_storage();
  rig("kill");
  EXPECT_EQ(driver->try_open(at("f", 2), O_RDONLY), -ETIMEDOUT);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f", 2)), -ETIMEDOUT);
  rig("up");
  EXPECT_EQ(unhurried([&] { return driver->try_open(at("f"), O_RDONLY); }), 0);
}

TEST_F(CephKills, ATransferOutlivesARestart) {
  NEEDS_A_CLUSTER_ON_DISK();
  const auto file = make_and_reopen("f", pattern(4 * mib, 1));
  rig("freeze");
  test::DrivenTransfer read(Kind::read, file, arena.data(), 4 * mib);
  driver->start(read);
  restart();
  EXPECT_EQ(&driver->next(), &read);
  EXPECT_EQ(read.result, std::int64_t{4 * mib});
  EXPECT_TRUE(same_bytes(arena.view(0, 4 * mib), pattern(4 * mib, 1)));
}

// Only the servers' return bounds these calls, and no other file waits for them.
TEST_F(CephKills, CallsOfTheMountWaitForServersThatAreGone) {
  NEEDS_A_CLUSTER_ON_DISK();
  NEEDS_A_MOUNT();
  const std::string data = pattern(4 * mib, 1);
  make_file("f", data).close();
  const auto file = must_open(mounted("f"), O_RDONLY);
  const test::ScratchDirectory here;
  test::write_file(here / "f", data.substr(0, mib));
  auto local = must_open(here / "f", O_RDONLY);
  rig("kill");
  test::DrivenTransfer read(Kind::read, file, arena.data(), 4 * mib);
  driver->start(read);
  const std::string path = mounted("absent");
  Operation open{.kind = Kind::open, .path = path.c_str(), .flags = O_RDONLY};
  driver->queue().submit(open);
  EXPECT_TRUE(driver->finds(local, data.substr(0, mib), arena.data() + 4 * mib));
  local.close();
  rig("up");
  driver->next();
  driver->next();
  EXPECT_EQ(read.result, std::int64_t{4 * mib});
  EXPECT_TRUE(same_bytes(arena.view(0, 4 * mib), data));
  EXPECT_EQ(open.result, -ENOENT);
}

TEST_F(CephKills, SyncedBytesOfTheMountSurviveAKill) {
  NEEDS_A_CLUSTER_ON_DISK();
  NEEDS_A_MOUNT();
  const std::string data = pattern(4 * mib, 1);
  made.push_back(at("f"));
  const auto file = must_open(mounted("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(write(file, data), std::int64_t{4 * mib});
  ASSERT_EQ(driver->simple(Kind::sync, file), 0);
  restart();
  std::memset(arena.data(), 0x5a, 4 * mib);
  auto elsewhere = open_unhurried(at("f"), O_RDONLY);
  EXPECT_TRUE(finds(elsewhere, data));
  elsewhere.close();
  // Open files continue.
  EXPECT_EQ(driver->pwrite(file, arena.data(), 10, 4 * mib), 10);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
}

// Pieces are written and synced in rounds while OSDs and MDS are killed repeatedly. Another client
// finds everything that a sync acknowledged, and failed rounds are known.
TEST_F(CephKills, SyncedBytesSurviveKillsUnderLoad) {
  NEEDS_A_CLUSTER_ON_DISK();
  constexpr std::size_t piece = 256 << 10;
  constexpr std::size_t pieces = 8;
  auto file = make_file("f", "");
  const auto make_durable = [&] {
    const auto writes = driver->start_pieces(Kind::write, file, arena.data(), piece, pieces);
    bool all = true;
    for (std::size_t i = 0; i < pieces; ++i)
      all = driver->next().result == std::int64_t{piece} && all;
    return driver->simple(Kind::sync, file) == 0 && all;
  };
  const std::string durable = write_under_restarts(test::scaled(2), std::chrono::milliseconds(500),
                                                   pieces * piece, make_durable);
  file.close();
  const auto again = reopen("f");
  EXPECT_TRUE(finds(again, durable));
}

}  // namespace
}  // namespace ferry::storage::ceph_faults_test
