// Storage `ceph` on a mock of libcephfs: abandoned calls, forks, and checks the library lacks.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/router.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"
#include "support/threads.hpp"

namespace ferry::storage::ceph_mock_test {
namespace {

using test::eventually;
using test::StorageDriver;

constexpr const char* ceph_mock = FERRY_MOCKS "/libcephfs_mock.so";
constexpr int patient_s = 3600;

class MockFaults {
 public:
  MockFaults() : library_(dlopen(ceph_mock, RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error("build the target ceph_mock");
  }
  ~MockFaults() { hang(""); }
  MockFaults(const MockFaults&) = delete;
  MockFaults& operator=(const MockFaults&) = delete;
  void hang(const char* name) { function<void(const char*)>("mock_ceph_hang")(name); }
  int inside() { return function<int()>("mock_ceph_inside")(); }
  int calls() { return function<int()>("mock_ceph_calls")(); }

 private:
  template <class Type>
  Type* function(const char* name) {
    return reinterpret_cast<Type*>(dlsym(library_, name));
  }
  void* const library_;
};

class CephMock : public testing::Test {
 protected:
  CephMock() { test::write_file(configuration, "/\n"); }
  std::string path(const std::string& name) const { return directory / name; }
  std::string at(const std::string& name, int timeout_s = 1) const {
    return "ceph:" + path(name) + "?conf=" + configuration +
           "&timeout=" + std::to_string(timeout_s);
  }
  std::int64_t rename(const std::string& from, const std::string& to) {
    Operation operation{.kind = Kind::rename, .path = from.c_str(), .new_path = to.c_str()};
    return driver.run(operation);
  }
  // Threads end when the library has returned and no call came for a while.
  static void await_late_calls() {
    ASSERT_TRUE(eventually([] { return test::threads_named("ferry-calls") == 0; }));
  }

  test::ScratchDirectory directory;
  const std::string configuration = directory / "ceph.conf";
  MockFaults faults;
  std::unique_ptr<Storage> storage = make_router({.ceph_library = ceph_mock});
  StorageDriver driver{*storage};
  std::string memory = std::string(100, 'x');
};

using CephLateCalls = CephMock;

TEST_F(CephMock, FilesAreWrittenAndRead) {
  File* file = driver.must_open(at("f"), O_RDWR | O_CREAT);
  EXPECT_EQ(driver.pwrite(file, memory.data(), 100, 0), 100);
  EXPECT_EQ(driver.simple(Kind::sync, file), 0);
  EXPECT_EQ(driver.close(file), 0);
  file = driver.must_open(at("f"), O_RDWR | O_TRUNC);
  EXPECT_EQ(test::file_size(path("f")), 0);
  EXPECT_EQ(driver.close(file), 0);
}

// The first call mounts the file system; calls that waited with it have timed out.
TEST_F(CephLateCalls, WhatWaitsForTheMountNeverBegins) {
  const std::string before(1000, 'a');
  test::write_file(path("emptied"), before);
  test::write_file(path("removed"), before);
  faults.hang("ceph_mount");
  EXPECT_EQ(driver.try_open(at("emptied"), O_RDWR | O_TRUNC), -ETIMEDOUT);
  EXPECT_EQ(driver.path_call(Kind::unlink, at("removed")), -ETIMEDOUT);
  faults.hang("");
  await_late_calls();
  EXPECT_EQ(test::read_file(path("emptied")), before);
  EXPECT_EQ(test::read_file(path("removed")), before);
}

// An append that waits for its turn behind one that hangs.
TEST_F(CephLateCalls, WhatWaitsForItsTurnNeverBegins) {
  File* file = driver.must_open(at("f", patient_s), O_RDWR | O_CREAT);
  File* late = driver.must_open(at("f"), O_RDWR);
  StorageDriver holder(*storage);
  iovec vector{memory.data(), 100};
  Operation first{.kind = Kind::append, .file = file, .vectors = {&vector, 1}};
  faults.hang("ceph_write");
  holder.queue().submit(first);
  holder.queue().flush();
  ASSERT_TRUE(eventually([&] { return faults.inside() == 1; }));
  std::uint64_t end = 0;
  EXPECT_EQ(driver.append(late, memory.data(), 50, end), -ETIMEDOUT);
  faults.hang("");
  EXPECT_EQ(holder.next().result, 100);
  await_late_calls();
  EXPECT_EQ(test::file_size(path("f")), 100);
  EXPECT_EQ(driver.close(late), 0);
  EXPECT_EQ(driver.close(file), 0);
}

TEST_F(CephLateCalls, WhatHasBegunKeepsNewerChangesOfItsFileOut) {
  test::write_file(path("f"), std::string(1000, 'a'));
  File* late = driver.must_open(at("f"), O_RDWR);
  File* other = driver.must_open(at("f", patient_s), O_RDWR);
  const std::string old_bytes(100, 'o');
  const std::string new_bytes(100, 'n');
  faults.hang("ceph_write");
  EXPECT_EQ(driver.pwrite(late, old_bytes.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver.pwrite(other, new_bytes.data(), 100, 0), -ETIMEDOUT) << "at once";
  faults.hang("");
  EXPECT_TRUE(eventually([&] { return driver.pwrite(other, new_bytes.data(), 100, 0) == 100; }));
  EXPECT_EQ(driver.simple(Kind::sync, other), 0);
  EXPECT_EQ(test::read_file(path("f")).substr(0, 100), new_bytes);
  driver.close(late);
  EXPECT_EQ(driver.close(other), 0);
}

// Also if the file is closed meanwhile, and for new opens.
TEST_F(CephLateCalls, ALateWriteOutlivesItsHandles) {
  test::write_file(path("f"), std::string(1000, 'a'));
  File* late = driver.must_open(at("f"), O_RDWR);
  faults.hang("ceph_write");
  EXPECT_EQ(driver.pwrite(late, memory.data(), 100, 0), -ETIMEDOUT);
  EXPECT_EQ(driver.close(late), -EIO) << "it is not known to arrive";
  File* file = driver.must_open(at("f", patient_s), O_RDWR);
  EXPECT_EQ(driver.simple(Kind::truncate, file, 10), -ETIMEDOUT);
  EXPECT_EQ(driver.simple(Kind::sync, file), -ETIMEDOUT);
  EXPECT_EQ(driver.pwrite(file, memory.data(), 1, 0), -ETIMEDOUT);
  EXPECT_EQ(driver.try_open(at("f", patient_s), O_RDWR | O_TRUNC), -ETIMEDOUT);
  EXPECT_EQ(driver.pread(file, memory.data(), 100, 900), 100) << "reads go on";
  faults.hang("");
  EXPECT_TRUE(eventually([&] { return driver.simple(Kind::truncate, file, 10) == 0; }));
  EXPECT_EQ(test::file_size(path("f")), 10);
  EXPECT_EQ(driver.close(file), 0);
}

TEST_F(CephMock, AForkedChildIsToldToUseSpawn) {
  test::write_file(path("f"), "abc");
  File* file = driver.must_open(at("f"), O_RDWR);
  const int before = faults.calls();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool inherited = driver.pread(file, memory.data(), 3, 0) == -ENOTCONN &&
                           driver.path_call(Kind::unlink, at("f")) == -ENOTCONN &&
                           driver.close(file) == 0;
    storage.reset();
    auto own = make_router({.ceph_library = ceph_mock});
    StorageDriver anew(*own);
    const bool refused = anew.try_open(at("f"), O_RDONLY) == -ENOTCONN;
    const std::string problem = own->describe_path(at("f")).problem;
    const bool said = problem.find("spawn") != std::string::npos;
    _exit(inherited && refused && said && faults.calls() == before ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(driver.pread(file, memory.data(), 3, 0), 3) << "the parent goes on";
  EXPECT_EQ(driver.close(file), 0);
}

// The library drops the slash that shows that.
TEST_F(CephMock, NamesOfDirectoriesAreNotThoseOfFiles) {
  test::write_file(path("f"), "abc");
  ASSERT_EQ(mkdir(path("dir").c_str(), 0755), 0);
  EXPECT_EQ(driver.try_open(at("f/"), O_RDONLY), -ENOTDIR);
  EXPECT_EQ(driver.try_open(at("new/"), O_RDWR | O_CREAT), -EISDIR);
  EXPECT_EQ(driver.path_call(Kind::path_status, at("f/")), -ENOTDIR);
  EXPECT_EQ(driver.path_call(Kind::unlink, at("f/")), -ENOTDIR);
  EXPECT_EQ(driver.path_call(Kind::unlink, at("dir/")), -EISDIR);
  EXPECT_EQ(driver.path_call(Kind::remove_directory, at("dir/.")), -EINVAL);
  EXPECT_EQ(driver.path_call(Kind::remove_directory, at("f/")), -ENOTDIR);
  EXPECT_EQ(rename(at("f/"), at("g")), -ENOTDIR);
  EXPECT_EQ(rename(at("f"), at("g/")), -ENOTDIR);
  EXPECT_EQ(rename(at("f"), at("dir/.")), -EBUSY);
  EXPECT_EQ(rename(at("dir/."), at("g")), -EBUSY);
  EXPECT_EQ(rename(at("dir/"), at("moved/")), 0);
  EXPECT_EQ(driver.path_call(Kind::remove_directory, at("moved/")), 0);
  EXPECT_EQ(test::read_file(path("f")), "abc");
}

}  // namespace
}  // namespace ferry::storage::ceph_mock_test
