// What a server may do to a client: lose writes, answer late, and list impossible names. With a
// server in this process (support/fake_nfs_server.hpp).
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/fake_nfs_server.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::FakeNfsServer;
using test::StorageDriver;

class NfsServerFaults : public testing::Test {
 protected:
  NfsServerFaults() : storage(make_router()), driver(std::make_unique<StorageDriver>(*storage)) {}

  File* open(const std::string& name, const std::string& settings = "", int flags = O_RDWR) {
    return driver->must_open(server.uri(name, settings), flags | O_CREAT);
  }
  std::int64_t write(File* file, const std::string& bytes, std::int64_t offset = 0) {
    return driver->pwrite(file, bytes.data(), bytes.size(), offset);
  }
  std::int64_t sync(File* file) { return driver->simple(Kind::sync, file); }
  std::int64_t truncate(File* file, std::int64_t bytes) {
    return driver->simple(Kind::truncate, file, bytes);
  }
  std::int64_t list(std::vector<std::string>& names) {
    std::vector<DirectoryEntry> entries;
    Operation operation;
    const std::string uri = server.uri("");
    operation.kind = Kind::list_directory;
    operation.path = uri.c_str();
    operation.entries = &entries;
    const std::int64_t result = driver->run(operation);
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
  File* const writer = open("f");
  File* const other = open("f");
  File* const of_other_uri = open("f", "&timeout=60");
  File* const reader = open("f", "", O_RDONLY);
  File* const stranger = open("g");
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
  for (File* const file : {writer, other, of_other_uri, stranger}) {
    EXPECT_EQ(sync(file), 0);
    EXPECT_EQ(driver->close(file), 0);
  }
}

TEST_F(NfsServerFaults, ASyncAfterTheLastCloseReportsWhatARestartHasLost) {
  File* file = open("f");
  ASSERT_EQ(write(file, "lost"), 4);
  EXPECT_EQ(driver->close(file), 0);
  server.restart();
  file = open("f");
  EXPECT_EQ(sync(file), -EIO);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsServerFaults, AnotherClientOfThisProcessReportsItToo) {
  File* const writer = open("f");
  const auto other_storage = make_router();
  StorageDriver other_driver(*other_storage);
  File* const other = other_driver.must_open(server.uri("f"), O_RDWR);
  ASSERT_EQ(write(writer, "lost"), 4);
  server.restart();
  EXPECT_EQ(other_driver.simple(Kind::sync, other), -EIO);
  EXPECT_EQ(sync(writer), -EIO);
  EXPECT_EQ(other_driver.close(other), 0);
  EXPECT_EQ(driver->close(writer), 0);
}

// ---- changes that are carried out late

// A connection whose requests the server does not read yet, while it serves others.
TEST_F(NfsServerFaults, AWriteThatWasGivenUpNeverLandsOverLaterOnes) {
  const std::string settings = "&timeout=1&connections=1";
  File* const file = open("f", settings);
  File* const other = open("f");
  ASSERT_EQ(write(file, "first"), 5);
  ASSERT_EQ(write(other, "first"), 5);
  server.hold();
  EXPECT_EQ(write(file, "late!"), -ETIMEDOUT);
  for (File* const one : {file, other}) {
    EXPECT_EQ(write(one, "newer"), -ETIMEDOUT);
    EXPECT_EQ(sync(one), -ETIMEDOUT);
    EXPECT_EQ(truncate(one, 0), -ETIMEDOUT);
  }
  // By connections that are served.
  EXPECT_EQ(driver->try_open(server.uri("f", "&timeout=60"), O_RDWR | O_TRUNC), -ETIMEDOUT);
  char got[5] = {};
  EXPECT_EQ(driver->pread(file, got, 5, 0), 5) << "over a new connection";
  EXPECT_EQ(std::string(got, 5), "first");
  server.release();
  ASSERT_TRUE(test::eventually([&] { return write(other, "newer") == 5; }));
  EXPECT_EQ(sync(file), 0);
  EXPECT_EQ(server.contents("f"), "newer");
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->close(other), 0);
}

TEST_F(NfsServerFaults, AFileIsRefusedForALateWriteOfAnOpeningThatIsClosed) {
  File* const file = open("f", "&timeout=1&connections=1");
  ASSERT_EQ(write(file, "first"), 5);
  server.hold();
  EXPECT_EQ(write(file, "late!"), -ETIMEDOUT);
  EXPECT_EQ(driver->close(file), 0);
  File* const again = open("f", "&timeout=5");
  EXPECT_EQ(write(again, "newer"), -ETIMEDOUT);
  server.release();
  ASSERT_TRUE(test::eventually([&] { return write(again, "newer") == 5; }));
  EXPECT_EQ(sync(again), 0);
  EXPECT_EQ(server.contents("f"), "newer");
  EXPECT_EQ(driver->close(again), 0);
}

TEST_F(NfsServerFaults, ATruncationThatWasGivenUpNeverLandsOverLaterWrites) {
  File* const file = open("f", "&timeout=1");
  File* const other = open("f");
  ASSERT_EQ(write(file, "first"), 5);
  server.hold();
  EXPECT_EQ(truncate(file, 0), -ETIMEDOUT);
  EXPECT_EQ(write(other, "newer"), -ETIMEDOUT);
  EXPECT_EQ(sync(file), -ETIMEDOUT);
  server.release();
  ASSERT_TRUE(test::eventually([&] { return write(other, "newer") == 5; }));
  EXPECT_EQ(sync(other), 0);
  EXPECT_EQ(server.contents("f"), "newer");
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_EQ(driver->close(other), 0);
}

// The server reports it once, on a connection kept only for a write: the sync has given up, or
// asked again on another one.
TEST_F(NfsServerFaults, AnErrorOfACommitThatIsAnsweredLateIsReported) {
  const std::string settings = "&timeout=1&connections=1";
  File* const file = open("f", settings);
  File* const other = open("f");
  File* const of_late_write = open("g", settings);
  ASSERT_EQ(write(file, "bytes"), 5);
  ASSERT_EQ(write(of_late_write, "first"), 5);
  server.hold();
  char late[] = "late!";
  iovec vector{late, 5};
  Operation operations[2];
  operations[0].kind = Kind::write;
  operations[0].file = of_late_write;
  operations[0].vectors = {&vector, 1};
  operations[1].kind = Kind::sync;
  operations[1].file = file;
  for (Operation& operation : operations)
    driver->queue().submit(operation);
  driver->queue().flush();
  driver->next();
  driver->next();
  EXPECT_EQ(operations[0].result, -ETIMEDOUT);
  const unsigned before = server.commits();
  server.fail_next_commit(NFS3ERR_NOSPC);
  server.release();
  ASSERT_TRUE(test::eventually([&] { return server.commits() > before; }));
  EXPECT_TRUE(test::eventually([&] { return sync(file) == -ENOSPC; }));
  EXPECT_EQ(sync(file), 0) << "once";
  EXPECT_EQ(sync(other), -ENOSPC) << "which has not synced yet";
  for (File* const one : {file, other, of_late_write})
    EXPECT_EQ(driver->close(one), 0);
}

// ---- servers that are hung or gone

// One that answers nothing, and is gone with the object.
class HungServer {
 public:
  HungServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, where, bytes) != 0 || ::listen(listener_, 1000) != 0 ||
        ::getsockname(listener_, where, &bytes) != 0)
      throw std::system_error(errno, std::system_category(), "a server's socket");
    port_ = std::to_string(ntohs(address.sin_port));
  }
  std::string uri() const {
    return "nfs://127.0.0.1/export/f?nfsport=" + port_ + "&mountport=" + port_ + "&timeout=60";
  }

 private:
  const test::Descriptor listener_;
  std::string port_;
};

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
  File* const file = open("f");
  auto hung = std::make_unique<HungServer>();
  const std::string hung_uri = hung->uri();
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
  EXPECT_EQ(driver->close(file), 0);
}

TEST_F(NfsServerFaults, ConnectionsNoticeWhenTheirServerIsGone) {
  File* const file = open("f");
  ASSERT_EQ(write(file, "bytes"), 5);
  const std::vector<int> sockets = sockets_to(server.port());
  EXPECT_FALSE(sockets.empty());
  for (const int fd : sockets) {
    int kept_alive = 0;
    socklen_t bytes = sizeof kept_alive;
    EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kept_alive, &bytes), 0);
    EXPECT_NE(kept_alive, 0);
  }
  EXPECT_EQ(driver->close(file), 0);
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

// What the child says; 0 is good.
template <class Child>
int in_child(Child child) {
  const pid_t number = fork();
  if (number == 0) {
    alarm(100);
    _exit(child());
  }
  int status = 0;
  waitpid(number, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(NfsServerFaults, AChildOfForkIsRefusedAndLeavesTheConnectionsAlone) {
  File* const file = open("f");
  ASSERT_EQ(write(file, "parent"), 6);
  const unsigned before = server.connections();
  const int said = in_child([&] {
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
  EXPECT_EQ(driver->close(file), 0);
}

}  // namespace
}  // namespace ferry::storage
