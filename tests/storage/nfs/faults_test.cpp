// An NFS server that ends, hangs or returns while requests are in flight: the rig's.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
  File* make_file(const std::string& name, const std::string& bytes, unsigned timeout_s = 60) {
    test::write_file(path(name), bytes);
    File* file = nullptr;
    const std::string uri = at(name, timeout_s);
    EXPECT_EQ(unhurried([&] { return driver->open(uri, O_RDWR, file); }), 0);
    return file;
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
  File* file = make_file("f", pattern(1 << 20, 1), 1);
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
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->try_open(at("f"), O_RDONLY), 0);
}

// Late answers have no receiver.
TEST_F(NfsFaults, ALateAnswerTouchesNothing) {
  File* file = make_file("f", pattern(1 << 20, 1), 1);
  rig("freeze");
  ASSERT_EQ(driver->pread(file, arena.data(), 1 << 20, 0), -ETIMEDOUT);
  std::memset(arena.data(), 0x5a, 1 << 20);
  rig("thaw");
  // By now the server has answered what it was asked before.
  const auto read_again = [&] { return driver->pread(file, arena.data() + (1 << 20), 1 << 20, 0); };
  ASSERT_EQ(unhurried(read_again), 1 << 20);
  EXPECT_TRUE(same_bytes(arena.view(1 << 20, 1 << 20), pattern(1 << 20, 1)));
  EXPECT_TRUE(same_bytes(arena.view(0, 1 << 20), std::string(1 << 20, 0x5a)));
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsFaults, TransfersUnderWayCanBeCancelled) {
  File* file = make_file("f", pattern(4 << 20, 1));
  ASSERT_EQ(driver->pread(file, arena.data(), 4096, 0), 4096);
  rig("freeze");
  Operation read;
  iovec vector{arena.data(), 4 << 20};
  begin(read, Kind::read, file, vector);
  driver->queue().cancel(read);
  EXPECT_EQ(&driver->next(), &read);
  EXPECT_EQ(read.result, -ECANCELED);
  std::memset(arena.data(), 0x5a, 4 << 20);
  rig("thaw");
  ASSERT_EQ(driver->pread(file, arena.data() + (4 << 20), 4 << 20, 0), 4 << 20);
  EXPECT_TRUE(same_bytes(arena.view(0, 4 << 20), std::string(4 << 20, 0x5a)));
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsFaults, ATransferOutlivesARestart) {
  File* file = make_file("f", pattern(4 << 20, 1));
  for (const Kind kind : {Kind::read, Kind::write}) {
    rig("freeze");
    std::memcpy(arena.data(), pattern(4 << 20, 2).data(), 4 << 20);
    Operation operation;
    iovec vector{arena.data(), 4 << 20};
    begin(operation, kind, file, vector);
    restart();
    EXPECT_EQ(&driver->next(), &operation);
    EXPECT_EQ(operation.result, 4 << 20);
    if (kind == Kind::read) {
      EXPECT_TRUE(same_bytes(arena.view(0, 4 << 20), pattern(4 << 20, 1)));
    }
  }
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), pattern(4 << 20, 2)));
  EXPECT_EQ(driver->close(file), 0);
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
  File* file = make_file("f", "");
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
  File* const writer = make_file("f", "");
  File* const other = driver->must_open(at("f", 61), O_RDWR);
  ASSERT_EQ(driver->pwrite(writer, arena.data(), 4096, 0), 4096);
  restart();
  for (File* const file : {other, writer}) {
    EXPECT_EQ(driver->simple(Kind::sync, file), -EIO);
    EXPECT_EQ(driver->simple(Kind::sync, file), 0);
    EXPECT_EQ(driver->close(file), 0);
  }
}

// The server executes it when it recovers, before anything newer.
TEST_F(NfsFaults, AWriteThatWasGivenUpNeverLandsOverLaterOnes) {
  File* const file = make_file("f", "", 1);
  std::memset(arena.data(), 'a', 4096);
  rig("freeze");
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ETIMEDOUT);
  EXPECT_EQ(driver->simple(Kind::sync, file), -ETIMEDOUT);
  rig("thaw");
  std::memset(arena.data(), 'b', 4096);
  ASSERT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 4096, 0); }), 4096);
  ASSERT_EQ(unhurried([&] { return driver->simple(Kind::sync, file); }), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), std::string(4096, 'b')));
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsFaults, SynchronousWritesNeedNoSync) {
  File* file = driver->must_open(at("f"), O_RDWR | O_CREAT | O_DSYNC);
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  restart();
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsFaults, AFileThatIsGoneIsStale) {
  File* file = make_file("f", pattern(4096, 1));
  std::filesystem::remove(path("f"));
  restart();  // so that the server does not have it open any more
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), -ESTALE);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ESTALE);
  EXPECT_EQ(driver->simple(Kind::file_status, file), -ESTALE);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsFaults, AFullServerSaysSo) {
  std::string small = server->uri;
  small.replace(small.find("/ferry"), 6, "/ferry-small/f");
  File* file = driver->must_open(small, O_RDWR | O_CREAT | O_TRUNC);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 512 << 10, 0), 512 << 10);
  // Writes what fits, like the system call.
  const std::int64_t written = driver->pwrite(file, arena.data(), 1 << 20, 512 << 10);
  EXPECT_GT(written, 0);
  EXPECT_LE(written, 512 << 10);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 1 << 20), -ENOSPC);
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->path_call(Kind::unlink, small), 0);
}

// Pieces are written and synced in rounds while the server is killed repeatedly. Everything that a
// sync acknowledged is there, and rounds that may be lost are known.
TEST_F(NfsFaults, SyncedBytesSurviveKillsUnderLoad) {
  constexpr std::size_t piece = 256 << 10;
  constexpr std::size_t pieces = 16;
  File* file = driver->must_open(at("f"), O_RDWR | O_CREAT);
  std::atomic<bool> over{false};
  std::thread killer([&] {
    for (std::uint64_t i = 0; i < test::scaled(8); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      restart();
    }
    over = true;
  });
  std::string durable;
  std::uint64_t reported = 0;
  for (std::uint64_t round = 1; !over || durable.empty(); ++round) {
    const std::string data = pattern(piece * pieces, round);
    std::memcpy(arena.data(), data.data(), data.size());
    std::vector<Operation> writes(pieces);
    std::vector<iovec> vectors(pieces);
    for (std::size_t i = 0; i < pieces; ++i) {
      vectors[i] = {arena.data() + i * piece, piece};
      writes[i].offset = static_cast<std::int64_t>(i * piece);
      writes[i].sync_follows = true;  // with commits that none waits for
      begin(writes[i], Kind::write, file, vectors[i]);
    }
    for (std::size_t i = 0; i < pieces; ++i)
      EXPECT_EQ(driver->next().result, static_cast<std::int64_t>(piece));
    if (driver->simple(Kind::sync, file) == 0) {
      durable = data;
    } else {
      ++reported;
      durable.clear();
    }
  }
  killer.join();
  ASSERT_FALSE(durable.empty());
  EXPECT_TRUE(same_bytes(read_file(path("f")), durable));
  EXPECT_EQ(driver->close(file), 0);
  std::cout << reported << " rounds were reported as perhaps lost\n";
}

}  // namespace
}  // namespace ferry::storage
