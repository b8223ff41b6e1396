// The client libraries of Ceph and PVFS2 (their mocks), whose calls fail.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "faults/nth_point.hpp"
#include "mocks/strikes.hpp"
#include "storage/router.hpp"
#include "support/client_mocks.hpp"
#include "support/files.hpp"

namespace ferry::test {

enum class MockedLibrary : std::uint8_t { ceph, pvfs2 };

// Its point is that of the library's calls. One at a time.
class ClientCalls : public MockFaults {
 public:
  explicit ClientCalls(MockedLibrary library)
      : MockFaults(library == MockedLibrary::ceph ? ceph_mock : pvfs2_mock), library_(library) {
    write_file(settings_ / "ceph.conf", "/\n");
  }
  ~ClientCalls() { strike({}); }

  void strike(const MockStrikes& strikes) {
    function<void(const MockStrikes*)>("mock_strike")(&strikes);
  }
  std::string struck() { return function<const char*()>("mock_struck")(); }

  // A file of this machine, as calls name it.
  std::string name_of(const std::string& path, int timeout_s = 60) const {
    const std::string uri = library_ == MockedLibrary::ceph
                                ? "ceph:" + path + "?conf=" + (settings_ / "ceph.conf")
                                : table_.uri_of(path);
    return uri + "&timeout=" + std::to_string(timeout_s);
  }
  static std::unique_ptr<storage::Storage> make_storage() {
    return storage::make_router({.ceph_library = ceph_mock, .pvfs2_library = pvfs2_mock});
  }
  // After a program. The mock of PVFS2 knows no closes.
  void expect_nothing_left() {
    if (library_ != MockedLibrary::ceph) return;
    EXPECT_TRUE(eventually([&] {
      return count("mock_ceph_files") == 0 && count("mock_ceph_clients") == 0;
    })) << count("mock_ceph_files")
        << " files and " << count("mock_ceph_clients") << " clients of the library are left";
    EXPECT_EQ(count("mock_ceph_mistakes"), mistakes_before_);
  }
  // Threads of the pools of calls end by themselves after a second.
  static void expect_no_threads() {
    EXPECT_TRUE(eventually([] { return threads_named("ferry-calls") == 0; }));
  }

  static inline NthPoint point;
  static bool strikes_now() { return point.strikes(); }

 private:
  int count(const char* name) { return function<int()>(name)(); }

  const MockedLibrary library_;
  const int mistakes_before_ =
      library_ == MockedLibrary::ceph ? count("mock_ceph_mistakes") : 0;  // other tests'
  const MockTable table_;
  const ScratchDirectory settings_;
};

}  // namespace ferry::test
