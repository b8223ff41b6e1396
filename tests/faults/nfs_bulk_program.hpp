// Bulk transfers with an NFS server in this process. Each result is checked against what the files
// may hold when one call has failed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "faults/faulty_work.hpp"
#include "support/fake_nfs_server.hpp"
#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry::test {

class NfsBulkProgram : FaultyWork {
 public:
  // `settings` of its URIs. `is_expected(error)`: the fault's own error. `is_late`: a change that
  // failed keeps others out for as long as its connection lives.
  NfsBulkProgram(FakeNfsServer& server, std::string settings, const NthPoint& point,
                 std::function<bool(int error)> is_expected, bool is_late = false)
      : FaultyWork(point, std::move(is_expected)),
        server_(server),
        settings_(std::move(settings)),
        is_late_(is_late) {}

  void run() {
    server_.put("f", before());
    server_.remove("log");
    is_written_ = false;
    is_begun_ = false;
    attempt("an engine", [&] {
      const bulk::Engine engine({.workers = 2, .depth = 2, .task_bytes = 64 << 10});
      attempt("work on a file", [&] {
        bulk::File file(engine, uri("f"), O_RDWR);
        std::string got(before().size(), ' ');
        reads(file, got);
        is_begun_ = true;
        is_written_ = succeeds(
            "a write", [&] { file.write_at_async(after().data(), after().size(), 0).get(); });
        EXPECT_TRUE(is_written_ || is_late_) << "the fault came twice";
        attempt("a sync", [&] { file.sync(); });
        reads(file, got);
        attempt("a size", [&] { EXPECT_EQ(file.size(), after().size()); });
        if (!is_late_) {
          succeeds("a truncation", [&] { file.truncate(after().size() + 5000); });
          succeeds("a truncation", [&] { file.truncate(after().size()); });
        }
        attempt("a close", [&] { file.close(); });
      });
      reads_files(engine);
      appends(engine);
      if (server_.has("log")) attempt("an unlink", [&] { engine.unlink(uri("log")); });
    });
    expect_legal(server_.contents("f"));
  }

 private:
  static const std::string& before() {
    static const std::string bytes = pattern(300'000, 1);
    return bytes;
  }
  static const std::string& after() {
    static const std::string bytes = pattern(300'000, 2);
    return bytes;
  }
  std::string uri(const std::string& name) const { return server_.uri(name, settings_); }

  // Until it is made, where that is possible.
  template <class Work>
  bool succeeds(const char* what, const Work& work) const {
    if (is_late_) return attempt(what, work);
    return eventually([&] { return attempt(what, work) || testing::Test::HasFailure(); });
  }
  // Old bytes, new ones, or, where the write failed, some of each.
  void expect_legal(std::string_view got) const {
    if (is_written_ || !is_begun_) {
      EXPECT_TRUE(same_bytes(got, is_written_ ? after() : before()));
      return;
    }
    ASSERT_EQ(got.size(), after().size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(got[i] == before()[i] || got[i] == after()[i]) << "byte " << i << " is foreign";
  }
  void reads(const bulk::File& file, std::string& got) const {
    if (attempt("a read", [&] { EXPECT_EQ(file.read_at(got.data(), got.size(), 0), got.size()); }))
      expect_legal(got);
  }
  void reads_files(const bulk::Engine& engine) const {
    attempt("a read of files", [&] {
      const std::vector<std::string> both(2, uri("f"));
      for (const bulk::Contents& one : engine.read_files(both)) {
        if (one.error_number != 0) {
          expect(one.error_number);
        } else {
          expect_legal({reinterpret_cast<const char*>(one.data), one.bytes});
        }
      }
    });
  }
  void appends(const bulk::Engine& engine) const {
    const std::string record = pattern(5000, 3);
    std::uint64_t end = 0;
    attempt("work on a log", [&] {
      bulk::File log(engine, uri("log"), O_WRONLY | O_CREAT | O_APPEND);
      attempt("an append", [&] { end = log.append(record.data(), record.size()); });
      attempt("the close of a log", [&] { log.close(); });
    });
    if (end == 0) return;
    EXPECT_EQ(end, record.size());
    EXPECT_TRUE(same_bytes(server_.contents("log"), record));
  }

  FakeNfsServer& server_;
  const std::string settings_;
  const bool is_late_;
  bool is_begun_ = false;    // the write
  bool is_written_ = false;  // all of it
};

}  // namespace ferry::test
