// What a server may do to a client: lose writes, answer late, and list impossible names. With a
// server in this process (support/fake_nfs_server.hpp).
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage/remote_call.hpp"
#include "storage/router.hpp"
#include "support/fake_nfs_server.hpp"
#include "support/in_a_child.hpp"
#include "support/no_threads.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::DrivenFile;
using test::FakeNfsServer;
using test::StorageDriver;

class NfsServerFaults : public testing::Test {
 protected:
  NfsServerFaults() : storage(make_router()), driver(std::make_unique<StorageDriver>(*storage)) {}

  DrivenFile open(const std::string& name, const std::string& settings = "", int flags = O_RDWR) {
    return {*driver, driver->must_open(server.uri(name, settings), flags | O_CREAT)};
  }
  std::int64_t write(File* file, const std::string& bytes, std::int64_t offset = 0) {
    return driver->pwrite(file, bytes.data(), bytes.size(), offset);
  }
  // Until an append to the file has its turn.
  static void wait_for_turn(File* file) {
    AppendTurn& turn = *static_cast<RemoteFile*>(file)->appending;
    ASSERT_TRUE(test::eventually([&] {
      if (!turn.try_lock()) return true;
      turn.unlock();
      return false;
    }));
  }
  std::int64_t sync(File* file) { return driver->simple(Kind::sync, file); }
  std::int64_t truncate(File* file, std::int64_t bytes) {
    return driver->simple(Kind::truncate, file, bytes);
  }
  std::int64_t list(std::vector<std::string>& names) {
    std::vector<DirectoryEntry> entries;
    const std::int64_t result = driver->list(server.uri(""), entries);
    for (const DirectoryEntry& entry : entries)
      names.push_back(entry.name);
    return result;
  }

  FakeNfsServer server;
  std::unique_ptr<Storage> storage;
  std::unique_ptr<StorageDriver> driver;
};

// ---- writes that the server has forgotten

TEST_F(NfsServerFaults, EveryOpeningOfAFileReportsWhatARestartHasLost) {
  const auto writer = open("f");
  const auto other = open("f");
  const auto of_other_uri = open("f", "&timeout=60");
  File* const reader = open("f", "", O_RDONLY).release();
  const auto stranger = open("g");
  ASSERT_EQ(write(writer, "lost"), 4);
  server.restart();
  EXPECT_EQ(server.contents("f"), "");
  EXPECT_EQ(sync(other), -EIO);
  EXPECT_EQ(sync(other), 0) << "once";
  EXPECT_EQ(sync(of_other_uri), -EIO);
  EXPECT_EQ(sync(writer), -EIO);
  EXPECT_EQ(sync(writer), 0);
  EXPECT_EQ(sync(stranger), 0);
  EXPECT_EQ(driver->close(reader), -EIO) << "which has not synced";
  ASSERT_EQ(write(other, "kept"), 4);
  EXPECT_EQ(sync(writer), 0);
  server.restart();
  EXPECT_EQ(server.contents("f"), "kept");
  for (const DrivenFile* const file : {&writer, &other, &of_other_uri, &stranger})
    EXPECT_EQ(sync(*file), 0);
}

TEST_F(NfsServerFaults, ASyncAfterTheLastCloseReportsWhatARestartHasLost) {
  auto file = open("f");
  ASSERT_EQ(write(file, "lost"), 4);
  file.close();
  server.restart();
  const auto again = open("f");
  EXPECT_EQ(sync(again), -EIO);
}

TEST_F(NfsServerFaults, AnotherClientOfThisProcessReportsItToo) {
  const auto writer = open("f");
  const auto other_storage = make_router();
  StorageDriver other_driver(*other_storage);
  File* const other = other_driver.must_open(server.uri("f"), O_RDWR);
  ASSERT_EQ(write(writer, "lost"), 4);
  server.restart();
  EXPECT_EQ(other_driver.simple(Kind::sync, other), -EIO);
  EXPECT_EQ(sync(writer), -EIO);
  EXPECT_EQ(other_driver.close(other), 0);
}

// ---- what this machine lacks

TEST_F(NfsServerFaults, TransfersWithoutAThreadFailAlone) {
  const auto file = open("f");
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  {
    const test::NoThreads none;
    EXPECT_EQ(write(file, "bytes"), -EAGAIN);
    EXPECT_EQ(sync(file), -EAGAIN);
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(write(file, "bytes"), 5);
  EXPECT_EQ(sync(file), 0);
  EXPECT_EQ(server.contents("f"), "bytes");
}

TEST_F(NfsServerFaults, TransfersGoOverTheConnectionsThatThereCanBe) {
  const auto file = open("f", "&connections=4");
  const unsigned connected = server.connections();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDERR_FILENO);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit one_more{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
  test::DrivenTransfer first(Kind::write, file, "bytes", 5, 0);
  driver->start(first);
  setrlimit(RLIMIT_NOFILE, &before);  // the one connection gets its socket when it tries again
  EXPECT_EQ(&driver->next(), &first);
  EXPECT_EQ(first.result, 5);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(write(file, "more", 5), 4);
  EXPECT_EQ(server.connections(), connected + 1);
  EXPECT_EQ(server.contents("f"), "bytesmore");
}

// ---- numbers that cannot be

TEST_F(NfsServerFaults, AServerThatWritesMoreThanItGotHasWrittenThat) {
  const auto file = open("f");
  server.spoil([](std::string_view encoder, void* reply) {
    if (encoder == "zdr_WRITE3res")
      static_cast<WRITE3res*>(reply)->WRITE3res_u.resok.count = 0x80000005;
  });
  std::uint64_t end = 0;
  EXPECT_EQ(driver->append(file, "bytes", 5, end), 5);
  EXPECT_EQ(end, 5U);
  EXPECT_EQ(write(file, "bytes"), 5);
}

TEST_F(NfsServerFaults, NoFileIsLongerThanPositionsReach) {
  const auto file = open("f");
  server.spoil([](std::string_view encoder, void* reply) {
    if (encoder == "zdr_GETATTR3res")
      static_cast<GETATTR3res*>(reply)->GETATTR3res_u.resok.obj_attributes.size = ~std::uint64_t{0};
  });
  Status status;
  ASSERT_EQ(driver->file_status(file, status), 0);
  EXPECT_EQ(status.size_bytes, static_cast<std::uint64_t>(INT64_MAX));
  std::uint64_t end = 0;
  EXPECT_EQ(driver->append(file, "bytes", 5, end), -EFBIG);
}

TEST_F(NfsServerFaults, AListingThatDoesNotGoOnEnds) {
  server.list({"a", "b"});
  server.spoil([](std::string_view encoder, void* reply) {
    if (encoder == "zdr_READDIRPLUS3res")
      static_cast<READDIRPLUS3res*>(reply)->READDIRPLUS3res_u.resok.reply.eof = 0;
  });
  std::vector<std::string> names;
  EXPECT_EQ(list(names), -EIO);
}

// ---- changes that are carried out late

// A connection whose requests the server does not read yet, while it serves others.
TEST_F(NfsServerFaults, AWriteThatWasGivenUpNeverLandsOverLaterOnes) {
  const std::string settings = "&timeout=1&connections=1";
  const auto file = open("f", settings);
  const auto other = open("f");
  ASSERT_EQ(write(file, "first"), 5);
  ASSERT_EQ(write(other, "first"), 5);
  server.hold();
  EXPECT_EQ(write(file, "late!"), -ETIMEDOUT);
  for (const DrivenFile* const one : {&file, &other}) {
    EXPECT_EQ(write(*one, "newer"), -ETIMEDOUT);
    EXPECT_EQ(sync(*one), -ETIMEDOUT);
    EXPECT_EQ(truncate(*one, 0), -ETIMEDOUT);
  }
  // By connections that are served.
  EXPECT_EQ(driver->try_open(server.uri("f", "&timeout=60"), O_RDWR | O_TRUNC), -ETIMEDOUT);
  char got[5] = {};
  EXPECT_TRUE(driver->finds(file, "first", got)) << "over a new connection";
  server.release();
  ASSERT_TRUE(test::eventually([&] { return write(other, "newer") == 5; }));
  EXPECT_EQ(sync(file), 0);
  EXPECT_EQ(server.contents("f"), "newer");
}

// The server has the bytes of the first append, and its answer does not come.
TEST_F(NfsServerFaults, AnAppendThatWaitedForALateOneIsRefused) {
  const auto file = open("f", "&timeout=1");
  const auto other = open("f", "&timeout=60");
  server.lose([](std::string_view encoder) { return encoder == "zdr_WRITE3res"; });
  test::DrivenTransfer late(Kind::append, file, "late!", 5);
  driver->start(late);
  wait_for_turn(file);
  test::DrivenTransfer behind(Kind::append, other, "newer", 5);
  driver->start(behind);
  driver->next();
  driver->next();
  EXPECT_EQ(late.result, -ETIMEDOUT);
  EXPECT_EQ(behind.result, -ETIMEDOUT);
  EXPECT_EQ(server.contents("f"), "late!");
}

TEST_F(NfsServerFaults, AnAppendWaitsForItsTurnNoLongerThanItsTime) {
  const auto file = open("f", "&timeout=60&connections=1");
  const auto other = open("f", "&timeout=1");
  server.hold();
  test::DrivenTransfer first(Kind::append, file, "first", 5);
  driver->start(first);
  wait_for_turn(file);
  test::DrivenTransfer behind(Kind::append, other, "newer", 5);
  driver->start(behind);
  EXPECT_EQ(&driver->next(), &behind);
  EXPECT_EQ(behind.result, -ETIMEDOUT);
  server.release();
  EXPECT_EQ(&driver->next(), &first);
  EXPECT_EQ(first.result, 5);
}

TEST_F(NfsServerFaults, AFileIsRefusedForALateWriteOfAnOpeningThatIsClosed) {
  auto file = open("f", "&timeout=1&connections=1");
  ASSERT_EQ(write(file, "first"), 5);
  server.hold();
  EXPECT_EQ(write(file, "late!"), -ETIMEDOUT);
  file.close();
  const auto again = open("f", "&timeout=5");
  EXPECT_EQ(write(again, "newer"), -ETIMEDOUT);
  server.release();
  ASSERT_TRUE(test::eventually([&] { return write(again, "newer") == 5; }));
  EXPECT_EQ(sync(again), 0);
  EXPECT_EQ(server.contents("f"), "newer");
}

TEST_F(NfsServerFaults, ATruncationThatWasGivenUpNeverLandsOverLaterWrites) {
  const auto file = open("f", "&timeout=1");
  const auto other = open("f");
  ASSERT_EQ(write(file, "first"), 5);
  server.hold();
  EXPECT_EQ(truncate(file, 0), -ETIMEDOUT);
  EXPECT_EQ(write(other, "newer"), -ETIMEDOUT);
  EXPECT_EQ(sync(file), -ETIMEDOUT);
  server.release();
  ASSERT_TRUE(test::eventually([&] { return write(other, "newer") == 5; }));
  EXPECT_EQ(sync(other), 0);
  EXPECT_EQ(server.contents("f"), "newer");
}

// The server reports it once, on a connection kept only for a write: the sync has given up, or
// asked again on another one.
TEST_F(NfsServerFaults, AnErrorOfACommitThatIsAnsweredLateIsReported) {
  const std::string settings = "&timeout=1&connections=1";
  const auto file = open("f", settings);
  const auto other = open("f");
  const auto of_late_write = open("g", settings);
  ASSERT_EQ(write(file, "bytes"), 5);
  ASSERT_EQ(write(of_late_write, "first"), 5);
  server.hold();
  test::DrivenTransfer late(Kind::write, of_late_write, "late!", 5);
  Operation synced{.kind = Kind::sync, .file = file};
  driver->queue().submit(late);
  driver->start(synced);
  driver->next();
  driver->next();
  EXPECT_EQ(late.result, -ETIMEDOUT);
  const unsigned before = server.commits();
  server.fail_next_commit(NFS3ERR_NOSPC);
  server.release();
  ASSERT_TRUE(test::eventually([&] { return server.commits() > before; }));
  EXPECT_TRUE(test::eventually([&] { return sync(file) == -ENOSPC; }));
  EXPECT_EQ(sync(file), 0) << "once";
  EXPECT_EQ(sync(other), -ENOSPC) << "which has not synced yet";
}

TEST_F(NfsServerFaults, AnErrorOfACommitIsReportedByEveryOpeningOnce) {
  const auto file = open("f");
  const auto other = open("f");
  ASSERT_EQ(write(file, "bytes"), 5);
  server.fail_next_commit(NFS3ERR_DQUOT);
  EXPECT_EQ(sync(file), -EDQUOT);
  EXPECT_EQ(sync(file), 0) << "once";
  EXPECT_EQ(sync(other), -EDQUOT);
  EXPECT_EQ(sync(other), 0);
}

// A server whose files come back from tape asks to be asked again.
TEST_F(NfsServerFaults, WhatTheServerPutsOffIsAskedAgain) {
  const auto file = open("f");
  std::atomic<int> put_off{0};
  for (const std::string_view wanted : {"zdr_WRITE3res", "zdr_READ3res", "zdr_COMMIT3res"}) {
    int left = 2;
    server.spoil([wanted, left, &put_off](std::string_view encoder, void* reply) mutable {
      if (encoder != wanted || left == 0) return;
      --left;
      ++put_off;
      // The status is the first member of each.
      *static_cast<nfsstat3*>(reply) = NFS3ERR_JUKEBOX;
    });
    EXPECT_EQ(write(file, "bytes"), 5) << wanted;
    char got[5] = {};
    EXPECT_EQ(driver->pread(file, got, sizeof got, 0), 5) << wanted;
    EXPECT_EQ(std::string_view(got, 5), "bytes") << wanted;
    EXPECT_EQ(sync(file), 0) << wanted;
  }
  EXPECT_EQ(put_off, 6);
}

// ---- servers that are hung or gone

// The sockets of this process that are connected to a port.
std::vector<int> sockets_to(unsigned port) {
  std::vector<int> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t bytes = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
        peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
      found.push_back(fd);
  }
  return found;
}

TEST_F(NfsServerFaults, CallsThatHangLeaveThoseOnOtherServersAlone) {
  const auto file = open("f");
  auto hung = std::make_unique<test::Listener>();
  const std::string hung_uri = hung->uri("f", "&timeout=60");
  const std::string uri = server.uri("f");
  std::vector<Operation> operations(49);
  for (Operation& operation : operations) {
    operation.kind = Kind::path_status;
    operation.path = hung_uri.c_str();
  }
  operations.back().path = uri.c_str();
  for (Operation& operation : operations)
    driver->queue().submit(operation);
  driver->queue().flush();
  EXPECT_EQ(&driver->next(), &operations.back()) << "while the others are under way";
  EXPECT_EQ(operations.back().result, 0);
  hung.reset();
  for (std::size_t i = 1; i < operations.size(); ++i)
    driver->next();
}

TEST_F(NfsServerFaults, ConnectionsNoticeWhenTheirServerIsGone) {
  const auto file = open("f");
  ASSERT_EQ(write(file, "bytes"), 5);
  const std::vector<int> sockets = sockets_to(server.port());
  EXPECT_FALSE(sockets.empty());
  for (const int fd : sockets) {
    int kept_alive = 0;
    socklen_t bytes = sizeof kept_alive;
    EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kept_alive, &bytes), 0);
    EXPECT_NE(kept_alive, 0);
  }
}

// ---- names

TEST_F(NfsServerFaults, AListingWithANameThatLeadsElsewhereIsRefused) {
  for (const std::string name : {"../f", "/etc/passwd", "f/g", "/", ""}) {
    server.list({"before", name, "behind"});
    std::vector<std::string> names;
    EXPECT_EQ(list(names), -EIO) << name;
    EXPECT_TRUE(names.empty()) << name;
  }
  server.list({".", "one", "..", "...", "a b"});
  std::vector<std::string> names;
  EXPECT_EQ(list(names), 0);
  EXPECT_EQ(names, (std::vector<std::string>{"one", "...", "a b"}));
}

// ---- fork

TEST_F(NfsServerFaults, AChildOfForkIsRefusedAndLeavesTheConnectionsAlone) {
  const auto file = open("f");
  ASSERT_EQ(write(file, "parent"), 6);
  const unsigned before = server.connections();
  const int said = test::in_a_child([&] {
    char got[6];
    if (driver->pread(file, got, 6, 0) != -ECHILD) return 1;
    if (write(file, "child") != -ECHILD || sync(file) != -ECHILD) return 2;
    if (truncate(file, 0) != -ECHILD) return 3;
    if (driver->try_open(server.uri("f"), O_RDWR) != -ECHILD) return 4;
    if (driver->close(file) != 0) return 5;
    const std::string problem = storage->describe_path(server.uri("f")).problem;
    if (problem.find("spawn") == problem.npos) return 6;
    driver.reset();
    storage.reset();
    return 0;
  });
  EXPECT_EQ(said, 0);
  EXPECT_EQ(server.connections(), before);
  EXPECT_EQ(write(file, "goes on"), 7);
  EXPECT_EQ(sync(file), 0);
  EXPECT_EQ(server.contents("f"), "goes on");
}

}  // namespace
}  // namespace ferry::storage
