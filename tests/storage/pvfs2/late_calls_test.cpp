// Calls of storage `pvfs2` that were reported as failed must not take effect later: those that wait
// for the library's only client never begin, and one that has begun keeps newer changes of its file
// out. On the mock of libpvfs2.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "storage/router.hpp"
#include "support/files.hpp"
#include "support/pvfs2_mock.hpp"
#include "support/storage_driver.hpp"
#include "support/threads.hpp"

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
  void start() {
    driver.queue().submit(operation);
    driver.queue().flush();
  }

  std::unique_ptr<Storage> storage = make_router({.pvfs2_library = test::pvfs2_mock});
  StorageDriver driver{*storage};
  Operation operation;
  std::string path;
  std::string new_path;
  std::string memory = std::string(100, 'x');
  iovec vector{memory.data(), memory.size()};
};

class Pvfs2LateCalls : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory / name; }
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

  static constexpr int patient_s = 3600;
  test::MockTable table;
  test::ScratchDirectory directory;
  test::MockFaults faults;
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
  Layout layout;
  layout.stripe_count = 2;
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
  ASSERT_TRUE(eventually([] { return test::threads_named("ferry-calls") == 0; }));
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

// A write that the library has begun and not finished.
TEST_F(Pvfs2LateCalls, WhatHasBegunKeepsNewerChangesOfItsFileOut) {
  test::write_file(path("f"), std::string(1000, 'a'));
  const auto storage = make_router({.pvfs2_library = test::pvfs2_mock});
  StorageDriver driver(*storage);
  File* late = driver.must_open(at("f"), O_RDWR);
  File* other = driver.must_open(at("f", patient_s), O_RDWR);
  std::string old_bytes(100, 'o');
  std::string new_bytes(100, 'n');
  faults.hang("PVFS_sys_io");
  EXPECT_EQ(driver.pwrite(late, old_bytes.data(), 100, 0), -ETIMEDOUT);
  // Refused immediately: otherwise it would wait for the library.
  std::uint64_t end = 0;
  EXPECT_EQ(driver.pwrite(other, new_bytes.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver.append(other, new_bytes.data(), 100, end), -ETIMEDOUT);
  EXPECT_EQ(driver.simple(Kind::truncate, other, 10), -ETIMEDOUT);
  EXPECT_EQ(driver.simple(Kind::sync, other), -ETIMEDOUT);
  EXPECT_EQ(driver.simple(Kind::sync_data, other), -ETIMEDOUT);
  faults.hang("");
  EXPECT_TRUE(eventually([&] { return driver.pwrite(other, new_bytes.data(), 100, 0) == 100; }));
  EXPECT_EQ(driver.simple(Kind::sync, other), 0);
  EXPECT_EQ(test::read_file(path("f")).substr(0, 100), new_bytes);
  driver.close(late);
  EXPECT_EQ(driver.close(other), 0);
}

}  // namespace
}  // namespace ferry::storage::pvfs2_late_calls_test
