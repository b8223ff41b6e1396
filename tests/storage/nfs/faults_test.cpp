// An NFS server that ends, hangs or returns while requests are in flight: the rig's.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/server_faults.hpp"

namespace ferry::storage {
namespace {

using test::pattern;
using test::read_file;
using test::same_bytes;
using test::ScratchDirectory;

class NfsFaults : public test::ServerFaults {
 protected:
  NfsFaults() : ServerFaults("nfs", "NFS") {}
  void SetUp() override {
    ServerFaults::SetUp();
    if (driver) directory = std::make_unique<ScratchDirectory>(server->directory);
  }

  std::string path(const std::string& name) const { return *directory / name; }
  std::string at(const std::string& name, unsigned timeout_s = 60) const {
    const std::string folder = std::filesystem::path(directory->path()).filename();
    return uri_of(folder + "/" + name, timeout_s);
  }
  test::DrivenFile make_file(const std::string& name, const std::string& bytes,
                             unsigned timeout_s = 60) {
    test::write_file(path(name), bytes);
    return open_unhurried(at(name, timeout_s), O_RDWR);
  }

  std::unique_ptr<ScratchDirectory> directory;
};

TEST_F(NfsFaults, AServerThatIsNotThereIsToldAtOnce) {
  rig("kill");
  EXPECT_EQ(driver->try_open(at("f"), O_RDWR | O_CREAT), -ECONNREFUSED);
  const Description told = storage->describe_path(at("f"));
  EXPECT_NE(told.problem.find("cannot be used"), std::string::npos) << told.problem;
  rig("up");
  EXPECT_EQ(driver->try_open(at("f"), O_RDWR | O_CREAT), 0);
}

TEST_F(NfsFaults, EveryKindOfCallEndsWhenTheServerHangs) {
  auto file = make_file("f", pattern(1 << 20, 1), 1);
  rig("freeze");
  EXPECT_EQ(driver->pread(file, arena.data(), 1 << 20, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::sync, file), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::file_status, file), -ETIMEDOUT);
  EXPECT_EQ(driver->try_open(at("f", 1), O_RDONLY), -ETIMEDOUT);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f", 1)), -ETIMEDOUT);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("missing", 1)), -ETIMEDOUT);
  rig("thaw");
  file.close();
  EXPECT_EQ(driver->try_open(at("f"), O_RDONLY), 0);
}

// Late answers have no receiver.
TEST_F(NfsFaults, ALateAnswerTouchesNothing) {
  const std::string data = pattern(1 << 20, 1);
  const auto file = make_file("f", data, 1);
  expect_late_answers_to_touch_nothing(file, data);
}

TEST_F(NfsFaults, TransfersUnderWayCanBeCancelled) {
  const auto file = make_file("f", pattern(4 << 20, 1));
  ASSERT_EQ(driver->pread(file, arena.data(), 4096, 0), 4096);
  expect_transfers_to_be_cancelled(file);
}

TEST_F(NfsFaults, ATransferOutlivesARestart) {
  const auto file = make_file("f", pattern(4 << 20, 1));
  for (const Kind kind : {Kind::read, Kind::write}) {
    rig("freeze");
    std::memcpy(arena.data(), pattern(4 << 20, 2).data(), 4 << 20);
    test::DrivenTransfer operation(kind, file, arena.data(), 4 << 20);
    driver->start(operation);
    restart();
    EXPECT_EQ(&driver->next(), &operation);
    EXPECT_EQ(operation.result, 4 << 20);
    if (kind == Kind::read) {
      EXPECT_TRUE(same_bytes(arena.view(0, 4 << 20), pattern(4 << 20, 1)));
    }
  }
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), pattern(4 << 20, 2)));
}

TEST_F(NfsFaults, PathsOutliveARestart) {
  ASSERT_EQ(driver->try_open(at("f"), O_RDWR | O_CREAT), 0);
  restart();
  EXPECT_EQ(driver->try_open(at("f"), O_RDWR), 0);
  restart();
  EXPECT_EQ(driver->try_open(at("g"), O_RDWR | O_CREAT | O_EXCL), 0);
  restart();
  EXPECT_EQ(driver->path_call(Kind::unlink, at("g")), 0);
}

// The server had acknowledged the write, but not that it was durable.
TEST_F(NfsFaults, WritesThatARestartMayHaveLostAreReportedBySync) {
  File* file = make_file("f", "").release();
  std::memset(arena.data(), 'a', 4096);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  restart();
  EXPECT_EQ(driver->simple(Kind::sync, file), -EIO);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);  // once
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  restart();
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 4096), 4096);
  EXPECT_EQ(driver->close(file), -EIO);  // the next answer showed it
}

TEST_F(NfsFaults, EveryOpeningReportsThatARestartMayHaveLostWrites) {
  auto writer = make_file("f", "");
  auto other = must_open(at("f", 61), O_RDWR);
  ASSERT_EQ(driver->pwrite(writer, arena.data(), 4096, 0), 4096);
  restart();
  for (test::DrivenFile* const file : {&other, &writer}) {
    EXPECT_EQ(driver->simple(Kind::sync, *file), -EIO);
    EXPECT_EQ(driver->simple(Kind::sync, *file), 0);
    file->close();
  }
}

// The server executes it when it recovers, before anything newer.
TEST_F(NfsFaults, AWriteThatWasGivenUpNeverLandsOverLaterOnes) {
  const auto file = make_file("f", "", 1);
  std::memset(arena.data(), 'a', 4096);
  rig("freeze");
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::sync, file), -ETIMEDOUT);
  rig("thaw");
  std::memset(arena.data(), 'b', 4096);
  ASSERT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 4096, 0); }), 4096);
  ASSERT_EQ(unhurried([&] { return driver->simple(Kind::sync, file); }), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), std::string(4096, 'b')));
}

TEST_F(NfsFaults, SynchronousWritesNeedNoSync) {
  const auto file = must_open(at("f"), O_RDWR | O_CREAT | O_DSYNC);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  restart();
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
}

TEST_F(NfsFaults, AFileThatIsGoneIsStale) {
  const auto file = make_file("f", pattern(4096, 1));
  std::filesystem::remove(path("f"));
  restart();  // so that the server does not have it open any more
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), -ESTALE);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ESTALE);
  EXPECT_EQ(driver->simple(Kind::file_status, file), -ESTALE);
}

TEST_F(NfsFaults, AFullServerSaysSo) {
  std::string small = server->uri;
  small.replace(small.find("/ferry"), 6, "/ferry-small/f");
  auto file = must_open(small, O_RDWR | O_CREAT | O_TRUNC);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 512 << 10, 0), 512 << 10);
  // Writes what fits, like the system call.
  const std::int64_t written = driver->pwrite(file, arena.data(), 1 << 20, 512 << 10);
  EXPECT_GT(written, 0);
  EXPECT_LE(written, 512 << 10);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 1 << 20), -ENOSPC);
  file.close();
  EXPECT_EQ(driver->path_call(Kind::unlink, small), 0);
}

// Pieces are written and synced in rounds while the server is killed repeatedly. Everything that a
// sync acknowledged is there, and rounds that may be lost are known.
TEST_F(NfsFaults, SyncedBytesSurviveKillsUnderLoad) {
  constexpr std::size_t piece = 256 << 10;
  constexpr std::size_t pieces = 16;
  auto file = must_open(at("f"), O_RDWR | O_CREAT);
  const auto make_durable = [&] {
    test::Transfers writes;
    for (std::size_t at = 0; at < pieces * piece; at += piece) {
      writes.emplace_back(Kind::write, file, arena.data() + at, piece, static_cast<off_t>(at));
      writes.back().sync_follows = true;  // with commits that none waits for
      driver->start(writes.back());
    }
    driver->expect_next(pieces, std::int64_t{piece});
    return driver->simple(Kind::sync, file) == 0;
  };
  const std::string durable = write_under_restarts(test::scaled(8), std::chrono::milliseconds(150),
                                                   pieces * piece, make_durable);
  EXPECT_TRUE(same_bytes(read_file(path("f")), durable));
}

}  // namespace
}  // namespace ferry::storage
