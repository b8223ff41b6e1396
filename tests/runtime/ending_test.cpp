// Ends beside calls in flight: of handles, which harm no other file, and of a runtime over a
// storage that hangs or fails, which ends within the deadline, reports unwritten data by file and
// is tried again by the next shutdown(). No acknowledged data is lost.
#include "runtime/ending.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/failing_storage.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Placement;
using std::chrono::milliseconds;
using test::pattern;
using test::read_at;
using test::same_bytes;

// Groups for calls, and one for write-back at the end.
class Ends : public testing::Test {
 protected:
  static constexpr std::uint32_t page = 4096;

  explicit Ends(std::uint32_t calling_groups) : calling_groups_(calling_groups) {}

  void SetUp() override {
    auto failing = std::make_unique<test::FailingStorage>(test::Random(1));
    storage = failing.get();
    const std::uint32_t groups = calling_groups_ + 1;
    rig = std::make_unique<test::ServerRig>(test::small_geometry(1, groups), std::move(failing));
    rig->add_cache({page, 16, 16, groups, 4});
    ending = std::make_unique<Ending>(rig->arena.context(), calling_groups_, *rig->server);
  }
  void TearDown() override {
    storage->let_go();
    storage->faults.stop();
    test::within_patience("the end of the server", [this] {
      ending.reset();
      rig.reset();
    });
  }
  ShutdownReport shutdown(milliseconds deadline) const {
    ShutdownReport report;
    test::within_patience("a shutdown", [&] { report = ending->shutdown(deadline); });
    return report;
  }
  // The first shutdown after which the condition holds: a busy machine gets more time for what is
  // possible beside what hangs.
  template <class Condition>
  ShutdownReport shutdown_until(Condition condition) const {
    for (milliseconds deadline{50};; deadline *= 4) {
      ShutdownReport report = shutdown(deadline);
      if (condition() || report.finished || deadline > test::patience / 4) return report;
    }
  }
  void expect_good_end(unsigned files_closed = 1) const {
    const ShutdownReport last = shutdown(test::patience);
    EXPECT_TRUE(last.finished);
    EXPECT_TRUE(last.errors.empty());
    EXPECT_EQ(last.files_closed, files_closed);
  }

  const std::string data = pattern(2 * page, 1);
  test::FailingStorage* storage = nullptr;
  std::unique_ptr<test::ServerRig> rig;
  std::unique_ptr<Ending> ending;

 private:
  const std::uint32_t calling_groups_;
};

class EndingTest : public Ends {
 protected:
  EndingTest() : Ends(1) {}
  // Leaves a file open with this data dirty.
  void leave_dirty(const char* path) const {
    test::Calls files = rig->calls(0, Placement::compute);
    const int file = files.open(path, O_RDWR | O_CREAT);
    ASSERT_GT(file, 0);
    ASSERT_EQ(files.pwrite(file, data.data(), data.size(), 0), 2 * page);
  }
};

// The hang lasts until the first call has returned.
TEST_F(EndingTest, AStorageThatHangsDoesNotHoldItUp) {
  leave_dirty("f");
  storage->hang("f");
  const ShutdownReport first = shutdown(milliseconds(50));
  EXPECT_FALSE(first.finished);
  ASSERT_EQ(first.errors.size(), 1U);
  EXPECT_EQ(first.errors[0], "writing back f: it outlasted the deadline (2 pages)");
  test::Calls files = rig->calls(0);
  EXPECT_EQ(files.ping(), -ESHUTDOWN) << "programs are refused all the same";
  EXPECT_FALSE(shutdown(milliseconds(0)).finished);
  storage->let_go();
  expect_good_end();
  EXPECT_TRUE(same_bytes(storage->contents("f"), data));
}

TEST_F(EndingTest, WhatFailedIsNamedAndTriedAgain) {
  leave_dirty("full");
  leave_dirty("healthy");
  storage->fail_writes_to("full");
  storage->faults.error = ENOSPC;
  storage->faults.writes = 1;
  for (int i = 0; i < 2; ++i) {
    const ShutdownReport report = shutdown(test::patience);
    EXPECT_FALSE(report.finished);
    ASSERT_EQ(report.errors.size(), 1U);
    EXPECT_EQ(report.errors[0], "writing back full: No space left on device (2 pages)");
    EXPECT_TRUE(same_bytes(storage->contents("healthy"), data));
  }
  test::Calls files = rig->calls(0);
  EXPECT_EQ(files.open("other", O_RDONLY), -ESHUTDOWN);
  storage->faults.stop();
  expect_good_end(2);
  EXPECT_TRUE(same_bytes(storage->contents("full"), data));
}

TEST_F(EndingTest, AHangingCloseDoesNotHoldItUp) {
  leave_dirty("f");
  storage->faults.closes_hang = true;
  const ShutdownReport first = shutdown_until([&] { return storage->contents("f") == data; });
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(first.files_closed, 0U);
  ASSERT_FALSE(first.errors.empty());
  EXPECT_TRUE(same_bytes(storage->contents("f"), data)) << "that was possible";
  storage->faults.stop();
  expect_good_end();
}

TEST_F(EndingTest, GivesUpInTheEnd) {
  leave_dirty("f");
  storage->faults.writes = 1;
  EXPECT_FALSE(shutdown(milliseconds(50)).finished);
  ending.reset();
  EXPECT_TRUE(rig->server->stop(test::patience).finished);
}

// Each within its own deadline, also while another one waits.
TEST_F(EndingTest, SeveralAtOnceTakeTurns) {
  leave_dirty("f");
  storage->hang("f");
  ShutdownReport patient;
  std::thread other([&] { patient = ending->shutdown(test::patience); });
  EXPECT_FALSE(shutdown(milliseconds(10)).finished);
  storage->let_go();
  test::within_patience("the other shutdown", [&] { other.join(); });
  EXPECT_TRUE(shutdown(test::patience).finished);
  EXPECT_TRUE(same_bytes(storage->contents("f"), data));
}

// ---- closing beside calls

class Closing : public Ends {
 protected:
  Closing() : Ends(3) {}
  test::Calls calls(std::uint32_t group, Placement placement = Placement::compute) {
    return rig->calls(group, placement);
  }
  const device::cache::View& cache() const { return rig->arena.context().cache; }
  // A handle of "g" that has this handle's record in the cache, which is closed.
  int open_in_place_of(test::Calls& calls, int file) const {
    calls.close(file);
    for (;;) {
      const int other = calls.open("g", O_RDWR);
      if (&cache().open_file(other) == &cache().open_file(file)) return other;
      calls.close(other);
    }
  }
  void wait_until_held() const {
    while (storage->held == 0)
      std::this_thread::yield();
  }
};

TEST_F(Closing, ShutdownWritesHealthyFilesBesideAHungOne) {
  auto files = calls(0);
  for (const char* name : {"hung", "healthy"}) {
    storage->set_contents(name, "");
    storage->put_on_device(name, name[1] == 'u' ? 1 : 2);
    const int file = files.open(name, O_RDWR);
    ASSERT_GT(file, 0);
    ASSERT_EQ(files.pwrite(file, data.data(), data.size(), 0), 2 * page);
  }
  storage->hang("hung");
  const auto is_written = [&] { return storage->contents("healthy").size() == data.size(); };
  const ShutdownReport report = shutdown_until(is_written);
  EXPECT_FALSE(report.finished);
  EXPECT_TRUE(is_written());
  EXPECT_EQ(report.errors.size(), 1U);
}

TEST_F(Closing, AnAppendBesideItsCloseHarmsNoOtherHandle) {
  storage->set_contents("f", std::string(page, 'a'));
  auto files = calls(0);
  const int other = files.open("f", O_RDONLY);
  const int appending = files.open("f", O_WRONLY | O_APPEND);
  ASSERT_EQ(read_at(files, other, 8, 0), "aaaaaaaa");
  storage->hang("f");
  std::thread writer([&] {
    auto mine = calls(1);
    EXPECT_EQ(mine.pwrite(appending, "XXXX", 4, 0), 4);
  });
  wait_until_held();
  std::thread closer([&] {
    auto mine = calls(2);
    mine.close(appending);
  });
  const device::DeviceRef<std::int32_t> handle(cache().open_file(appending).handle);
  while (handle.load(device::acquire) == appending)
    std::this_thread::yield();
  storage->let_go();
  writer.join();
  closer.join();
  EXPECT_EQ(storage->contents("f").substr(0, 8), "aaaaaaaa");
  EXPECT_EQ(read_at(files, other, 8, 0), "aaaaaaaa");
  EXPECT_EQ(read_at(files, other, 8, page), "XXXX") << "what was appended";
}

TEST_F(Closing, ACloseAfterAFailedShutdownLosesNothing) {
  auto files = calls(0);
  storage->set_contents("f", "");
  const int file = files.open("f", O_RDWR);
  ASSERT_EQ(files.pwrite(file, data.data(), data.size(), 0), 2 * page);
  storage->faults.error = ENOSPC;
  storage->faults.writes = 1;
  EXPECT_FALSE(shutdown(milliseconds(300)).finished);
  EXPECT_EQ(files.close(file), -ESHUTDOWN);
  storage->faults.stop();
  expect_good_end();
  EXPECT_EQ(storage->contents("f").size(), data.size());
}

// A writer that waits for a hung storage must not delay the end for other files.
TEST_F(Closing, ShutdownWritesHealthyFilesBesideAHungWriter) {
  auto files = calls(0);
  storage->set_contents("hung", "");
  storage->set_contents("healthy", "");
  storage->put_on_device("healthy", 2);
  const int healthy = files.open("healthy", O_RDWR);
  const int hung = files.open("hung", O_RDWR);
  ASSERT_EQ(files.pwrite(healthy, data.data(), data.size(), 0), 2 * page);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(files.pwrite(hung, "WXYZ", 4, 100 * i), 4);
  storage->hang("hung");
  std::thread writer([&] {
    auto mine = calls(1);
    mine.pwrite(hung, "WXYZ", 4, 400);
  });
  wait_until_held();
  const auto is_written = [&] { return storage->contents("healthy").size() == data.size(); };
  EXPECT_FALSE(shutdown_until(is_written).finished);
  EXPECT_TRUE(is_written());
  storage->let_go();
  writer.join();
}

TEST_F(Closing, ATruncationBesideItsCloseCutsNoOtherFile) {
  storage->set_contents("f", std::string(page, 'a'));
  storage->set_contents("g", "");
  auto files = calls(0);
  const int kept = files.open("f", O_RDWR);
  const int cut = files.open("f", O_RDWR);
  device::Requester requester(rig->arena.context(), 2);
  device::cache::CachedFiles cached(requester);
  device::cache::OpenFile* const entry = cached.find(cut);
  ASSERT_NE(entry, nullptr);
  int other = 0;
  auto mine = calls(1);
  cached.truncate(*entry, 0, [&] {  // what other threads do while the storage cuts the file
    other = open_in_place_of(mine, cut);
    EXPECT_EQ(mine.pwrite(other, "WXYZ", 4, 0), 4);
    return 0;
  });
  EXPECT_EQ(read_at(mine, other, 4, 0), "WXYZ");
  EXPECT_EQ(mine.fsync(other), 0);
  EXPECT_EQ(storage->contents("g"), "WXYZ");
  EXPECT_EQ(cache().inode(cache().open_file(kept).inode).outside, 0U) << "its writers would hang";
}

TEST_F(Closing, AVectoredWriteBesideItsCloseWritesToNoOtherFile) {
  storage->set_contents("f", std::string(page, 'a'));
  storage->set_contents("g", std::string(page, 'g'));
  auto files = calls(0);
  files.open("f", O_RDWR);
  const int closed = files.open("f", O_RDWR);
  device::Requester requester(rig->arena.context(), 2);
  int other = 0;
  auto mine = calls(1);
  std::string piece = "WXYZ";
  const std::int64_t got = device::cached_transfer(
      requester, device::TransferDirection::write, closed, 2, 0, [&](int i, device::IoVector& out) {
        out = device::IoVector{piece.data(), piece.size()};
        if (i > 0) other = open_in_place_of(mine, closed);  // what other threads do meanwhile
        return 0;
      });
  EXPECT_EQ(got, 4) << "the piece before the close";
  EXPECT_EQ(read_at(mine, other, 8, 0), "gggggggg");
}

// A close has removed the handle from the cache, and its request has not reached the server, which
// still serves the handle. Another handle of the file has dirtied something since.
class HalfClosed : public Closing, public testing::WithParamInterface<Placement> {
 protected:
  void SetUp() override {
    Closing::SetUp();
    storage->set_contents("f", std::string(page, 'a'));
    auto files = calls(0);
    kept = files.open("f", O_RDWR);
    closed = files.open("f", O_RDWR);
    device::Requester requester(rig->arena.context(), 2);
    device::cache::CachedFiles cached(requester);
    device::cache::OpenFile* const entry = cached.find(closed);
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(cached.detach(*entry, closed, [](device::FileStatus&) { return 0; }), 0);
    ASSERT_EQ(files.pwrite(kept, "dirty", 5, 0), 5);
    ASSERT_EQ(storage->contents("f", 0, 5), "aaaaa");
  }
  // What the caller of close() does next.
  void finish_close() {
    device::Requester requester(rig->arena.context(), 2);
    device::Request request{};
    request.opcode = device::Opcode::close;
    request.file = closed;
    EXPECT_EQ(requester.call(request).result, 0) << "by the thread that closes it";
  }
  int kept = 0;
  int closed = 0;
};

TEST_P(HalfClosed, RefusesEveryCallOnTheHandle) {
  auto mine = calls(1, GetParam());
  // In the arena, behind the cache: what is started there goes to the server without a copy.
  char* const bytes = reinterpret_cast<char*>(rig->heap()) + test::ServerRig::heap_bytes - page;
  const device::IoVector pieces[] = {{bytes, 2}, {bytes + 8, 3}};
  EXPECT_EQ(mine.pread(closed, bytes, 5, 0), -EBADF);
  EXPECT_EQ(mine.preadv(closed, pieces, 2, 0), -EBADF);
  EXPECT_EQ(mine.read(closed, bytes, 5), -EBADF);
  device::Pending pending = mine.pread_async(closed, bytes, 5, 0);
  EXPECT_EQ(mine.wait(pending), -EBADF);
  std::memcpy(bytes, "wrong", 5);
  EXPECT_EQ(mine.pwrite(closed, bytes, 5, 0), -EBADF);
  EXPECT_EQ(mine.pwritev(closed, pieces, 2, 0), -EBADF);
  EXPECT_EQ(mine.write(closed, bytes, 5), -EBADF);
  pending = mine.pwrite_async(closed, bytes, 5, 0);
  EXPECT_EQ(mine.wait(pending), -EBADF);
  EXPECT_EQ(mine.ftruncate(closed, 0), -EBADF);
  device::cache::PinnedView view;
  EXPECT_EQ(mine.hold(closed, 0, 5, view), -EBADF);
  EXPECT_EQ(mine.prefetch(closed, 0, 5), -EBADF);
  // Success would say that the bytes are in the storage.
  EXPECT_EQ(mine.flush(closed), -EBADF);
  EXPECT_EQ(mine.fsync(closed), -EBADF);
  EXPECT_EQ(mine.fdatasync(closed), -EBADF);
  EXPECT_EQ(mine.evict(closed), -EBADF);
  EXPECT_EQ(mine.close(closed), -EBADF);
  EXPECT_EQ(storage->contents("f"), std::string(page, 'a'));
  auto others = calls(0);
  EXPECT_EQ(read_at(others, kept, 6, 0), "dirtya");
  EXPECT_EQ(others.fsync(kept), 0);
  EXPECT_EQ(storage->contents("f"), "dirty" + std::string(page - 5, 'a'));
  finish_close();
  EXPECT_EQ(mine.pread(closed, bytes, 5, 0), -EBADF);
  EXPECT_EQ(others.close(kept), 0);
}

INSTANTIATE_TEST_SUITE_P(Placements, HalfClosed,
                         testing::Values(Placement::host, Placement::compute, Placement::service,
                                         Placement::automatic));

}  // namespace
}  // namespace ferry
