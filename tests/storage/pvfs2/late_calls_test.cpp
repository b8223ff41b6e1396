// Calls of storage `pvfs2` that were reported as failed must not take effect later: those that wait
// for the library's only client never begin, and one that has begun keeps newer changes of its file
// out. On the mock of libpvfs2.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"

namespace ferry::storage::pvfs2_late_calls_test {
namespace {

using test::eventually;
using test::StorageDriver;

// One operation on its own pool of threads; the client is the process's.
struct Call {
  explicit Call(Kind kind) { operation.kind = kind; }
  // Of one that goes to a file, before the library hangs.
  void open(const std::string& uri) { operation.file = driver.must_open(uri, O_RDWR); }
  void on(const std::string& uri, const std::string& new_uri = "") {
    path = uri;
    new_path = new_uri;
    operation.path = path.c_str();
    operation.new_path = new_path.c_str();
  }
  void start() { driver.start(operation); }

  std::unique_ptr<Storage> storage = make_router({.pvfs2_library = test::pvfs2_mock});
  StorageDriver driver{*storage};
  Operation operation;
  std::string path;
  std::string new_path;
  std::string memory = std::string(100, 'x');
  iovec vector{memory.data(), memory.size()};
};

class Pvfs2LateCalls : public test::ClientMock {
 protected:
  std::string at(const std::string& name, int timeout_s = 1) const {
    return table.uri_of(path(name)) + "&timeout=" + std::to_string(timeout_s);
  }
  Call& make(Kind kind) {
    calls.push_back(std::make_unique<Call>(kind));
    return *calls.back();
  }
  Call& make_on_file(Kind kind, const std::string& name) {
    Call& call = make(kind);
    call.open(at(name));
    return call;
  }

  test::MockTable table;
  test::Pvfs2Faults faults;
  std::vector<std::unique_ptr<Call>> calls;
};

// Every kind of call that changes something waits for the client until it has timed out.
TEST_F(Pvfs2LateCalls, WhatHasNotBegunNeverDoes) {
  const std::string before(1000, 'a');
  for (const char* name : {"written", "appended", "shortened", "emptied", "removed", "moved"})
    test::write_file(path(name), before);
  for (const char* name : {"empty", "plain"})
    ASSERT_EQ(mkdir(path(name).c_str(), 0755), 0);
  Call& write = make_on_file(Kind::write, "written");
  Call& append = make_on_file(Kind::append, "appended");
  for (Call* call : {&write, &append})
    call->operation.vectors = {&call->vector, 1};
  make_on_file(Kind::truncate, "shortened");
  Call& opened = make(Kind::open);
  opened.on(at("emptied"));
  opened.operation.flags = O_RDWR | O_TRUNC;
  Call& created = make(Kind::open);
  created.on(at("created"));
  created.operation.flags = O_RDWR | O_CREAT;
  created.operation.mode = 0644;
  make(Kind::unlink).on(at("removed"));
  make(Kind::rename).on(at("moved"), at("elsewhere"));
  make(Kind::make_directory).on(at("made"));
  make(Kind::remove_directory).on(at("empty"));
  Layout layout = test::striped(0, 2);
  Call& striped = make(Kind::set_layout);
  striped.on(at("plain"));
  striped.operation.layout = &layout;

  // This one is in the library, and has the client.
  Call holder(Kind::path_status);
  holder.on(at("plain", patient_s));
  faults.hang("PVFS_sys_getattr");
  holder.start();
  ASSERT_TRUE(eventually([&] { return faults.inside() == 1; }));
  for (const auto& call : calls)
    call->start();
  for (const auto& call : calls) {
    EXPECT_EQ(&call->driver.next(), &call->operation);
    EXPECT_EQ(call->operation.result, -ETIMEDOUT) << static_cast<int>(call->operation.kind);
  }
  faults.hang("");
  EXPECT_EQ(holder.driver.next().result, 0);

  // All of them get their turn, and do nothing with it.
  await_late_calls();
  for (const char* name : {"written", "appended", "shortened", "emptied", "removed", "moved"})
    EXPECT_EQ(test::read_file(path(name)), before) << name;
  for (const char* name : {"created", "elsewhere", "made"})
    EXPECT_FALSE(std::filesystem::exists(path(name))) << name;
  EXPECT_TRUE(std::filesystem::is_directory(path("empty")));
  layout = Layout{};
  Call after(Kind::path_layout);
  after.on(at("plain"));
  after.operation.layout = &layout;
  after.start();
  after.driver.next();
  EXPECT_NE(layout.stripe_count, 2U) << "the layout was set";
  for (const auto& call : calls) {
    File* file = call->operation.file;
    EXPECT_EQ(file == nullptr ? 0 : call->driver.close(file), 0);
  }
}

}  // namespace
}  // namespace ferry::storage::pvfs2_late_calls_test
