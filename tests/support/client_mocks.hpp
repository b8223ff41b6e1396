// The tests' interface to the mocks of libcephfs and libpvfs2 (tests/mocks).
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "support/files.hpp"
#include "support/storage_driver.hpp"
#include "support/threads.hpp"
#include "support/within.hpp"

namespace ferry::test {

inline constexpr const char* ceph_mock = FERRY_MOCKS "/libcephfs_mock.so";
inline constexpr const char* pvfs2_mock = FERRY_MOCKS "/libpvfs2.so.2";

// A mount table that maps all local files to /mock.
class MockTable {
 public:
  MockTable() { write_file(path(), "mock:/ /mock pvfs2 defaults 0 0\n"); }
  std::string path() const { return directory_ / "pvfs2tab"; }
  // `file` is a path of this machine.
  std::string uri_of(const std::string& file) const { return "pvfs2:/mock" + file + query(); }
  std::string query() const { return "?tab=" + path(); }

 private:
  ScratchDirectory directory_;
};

// Faults of a mock, for the object's lifetime.
class MockFaults {
 public:
  explicit MockFaults(const char* library) : library_(dlopen(library, RTLD_NOW)) {
    if (library_ == nullptr)
      throw std::runtime_error(std::string("build the target of ") + library);
  }
  ~MockFaults() { hang(""); }
  MockFaults(const MockFaults&) = delete;
  MockFaults& operator=(const MockFaults&) = delete;

  // Calls of that function wait until another one is set.
  void hang(const char* name) { function<void(const char*)>("mock_hang")(name); }
  // How many calls wait, or have just begun.
  int inside() { return function<int()>("mock_inside")(); }
  // How many there have been.
  int calls() { return function<int()>("mock_calls")(); }

 protected:
  template <class Type>
  Type* function(const char* name) {
    return reinterpret_cast<Type*>(dlsym(library_, name));
  }

 private:
  void* const library_;
};

class CephMockFaults : public MockFaults {
 public:
  CephMockFaults() : MockFaults(ceph_mock) {}
  ~CephMockFaults() {
    forget_reads(false);
    let_buffer(false);
    let_cache(true);
    keep_reads(false);
    bad_from(std::numeric_limits<std::int64_t>::max());
    stripe(1 << 22);
  }

  // From now on, reads sleep until their file's status is asked for.
  void forget_reads(bool on) { function<void(bool)>("mock_ceph_forget")(on); }
  // Whether the servers let clients cache files.
  void let_cache(bool on) { function<void(bool)>("mock_ceph_let_cache")(on); }
  // What a read has fetched is there until another one fetches something; the rest takes longer.
  void keep_reads(bool on) { function<void(bool)>("mock_ceph_keep_reads")(on); }
  // Reads that reach beyond it fail.
  void bad_from(std::int64_t offset) { function<void(std::int64_t)>("mock_ceph_bad_from")(offset); }
  // What the longest read since the last such question asked for.
  std::int64_t longest_read() { return function<std::int64_t()>("mock_ceph_longest_read")(); }
  // How many reads there have been, and how often a client asked for its rights to a file.
  int reads() { return function<int()>("mock_ceph_reads")(); }
  int rights_asked() { return function<int()>("mock_ceph_rights_asked")(); }
  // The stripe unit of all files; 0: it cannot be known.
  void stripe(int bytes) { function<void(int)>("mock_ceph_stripe")(bytes); }
  // How many sleep.
  int sleeping() { return function<int()>("mock_ceph_sleeping")(); }
  // The next read lacks as many of its first bytes, as the library's beside a file that grows.
  void lose_head(std::int64_t bytes) { function<void(std::int64_t)>("mock_ceph_lose_head")(bytes); }
  // Open files and clients of the library.
  int files() { return function<int()>("mock_ceph_files")(); }
  int clients() { return function<int()>("mock_ceph_clients")(); }
  // Of the file that was opened last.
  int last_number() { return function<int()>("mock_ceph_last_number")(); }
  // How often the status of that file was asked for, by its open, too.
  int asked(int number) { return function<int(int)>("mock_ceph_asked")(number); }
  // Closes of files that were not open and questions about such, and ends of clients that had some,
  // so far.
  int mistakes() { return function<int()>("mock_ceph_mistakes")(); }
  // Whether the library keeps writes for later, instead of waiting for the servers.
  void let_buffer(bool on) { function<void(bool)>("mock_ceph_buffer")(on); }
  // Bytes of the longest write since the last call of this.
  std::int64_t longest_write() { return function<std::int64_t()>("mock_ceph_longest_write")(); }
  // The servers refuse the present clients.
  void evict() { function<void()>("mock_ceph_evict")(); }
};

class Pvfs2Faults : public MockFaults {
 public:
  Pvfs2Faults() : MockFaults(pvfs2_mock) {}
  ~Pvfs2Faults() {
    list_as("");
    leave_room(std::int64_t{1} << 38);
    fail("", 0);
  }

  // "PVFS_sys_io" returns this system error; one function at a time.
  void fail(const char* name, int error) {
    function<void(const char*, int)>("mock_pvfs2_fail")(name, error);
  }
  // Sets the name of every entry in a directory.
  void list_as(const char* name) { function<void(const char*)>("mock_pvfs2_list")(name); }
  // Sets the fullest server's free space.
  void leave_room(std::int64_t bytes) { function<void(std::int64_t)>("mock_pvfs2_room")(bytes); }
};

// The base of tests on a mock, whose files are those of this machine.
class ClientMock : public StorageTest {
 protected:
  std::string path(const std::string& name) const { return directory / name; }
  // Threads end when the library has returned and no call came for a while.
  static void await_late_calls() {
    ASSERT_TRUE(eventually([] { return threads_named("ferry-calls") == 0; }));
  }

  static constexpr int patient_s = 3600;
  ScratchDirectory directory;
  std::string memory = std::string(100, 'x');
};

}  // namespace ferry::test
