// The tests' interface to the mock of libpvfs2 (tests/mocks/pvfs2_mock.cpp).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "support/files.hpp"

namespace ferry::test {

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

// Faults, for the object's lifetime.
class MockFaults {
 public:
  MockFaults()
      : library_(dlopen(pvfs2_mock, RTLD_NOW)),
        fail_(function<void(const char*, int)>("mock_pvfs2_fail")),
        hang_(function<void(const char*)>("mock_pvfs2_hang")) {}
  ~MockFaults() {
    hang("");
    list_as("");
    leave_room(std::int64_t{1} << 38);
    if (!failing_.empty()) fail_(failing_.c_str(), 0);
  }
  MockFaults(const MockFaults&) = delete;
  MockFaults& operator=(const MockFaults&) = delete;

  // "PVFS_sys_io" returns this system error; one function at a time.
  void fail(const std::string& name, int error) {
    if (!failing_.empty()) fail_(failing_.c_str(), 0);
    failing_ = name;
    if (!name.empty()) fail_(name.c_str(), error);
  }
  // Sets the name of every entry in a directory.
  void list_as(const std::string& name) {
    function<void(const char*)>("mock_pvfs2_list")(name.c_str());
  }
  // How many calls wait, or have just begun.
  int inside() { return function<int()>("mock_pvfs2_inside")(); }
  // Sets the fullest server's free space.
  void leave_room(std::int64_t bytes) { function<void(std::int64_t)>("mock_pvfs2_room")(bytes); }
  // How many there have been.
  int calls() { return function<int()>("mock_pvfs2_calls")(); }
  // Calls of that function wait until another one is set.
  void hang(const std::string& name) { hang_(name.c_str()); }

 private:
  template <class Type>
  Type* function(const char* name) {
    if (library_ == nullptr) throw std::runtime_error("build the target pvfs2_mock");
    return reinterpret_cast<Type*>(dlsym(library_, name));
  }

  void* const library_;
  void (*const fail_)(const char*, int);
  void (*const hang_)(const char*);
  std::string failing_;
};

}  // namespace ferry::test
