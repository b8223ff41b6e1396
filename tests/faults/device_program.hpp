// A device program that makes every file call and checks each result against what the file may
// hold when one call has failed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "faults/nth_point.hpp"
#include "faults/possible_file.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"

namespace ferry::test {

// What the program is told of the fault that it runs with.
struct FaultInForce {
  const NthPoint& point;
  // Whether a call may return this error, once the point has struck.
  std::function<bool(int error)> is_expected;
  bool is_late = false;      // what failed may happen later, and makes other calls fail
  bool may_be_done = false;  // what failed may have happened: a size that calls see proves nothing
  // Whether the point struck a write to the storage.
  std::function<bool()> hit_write;
};

// The program's file: its name in calls, and the test's own ways to it.
struct TestedFile {
  TestedFile(std::string local, std::string name)
      : path(std::move(name)),
        write([local](std::string_view bytes) { write_file(local, bytes); }),
        read([local] { return read_file(local); }),
        exists([local] { return access(local.c_str(), F_OK) == 0; }),
        remove([local] { ::unlink(local.c_str()); }) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a name says all of a local one
  TestedFile(const std::string& local) : TestedFile(local, local) {}
  TestedFile() = default;

  std::string path;
  std::function<void(std::string_view bytes)> write;
  std::function<std::string()> read;
  std::function<bool()> exists;
  std::function<void()> remove;
};

class DeviceProgram {
 public:
  static constexpr std::uint64_t first_bytes = 9000;

  // `memory`: 8 KiB of the device's, aligned to pages.
  DeviceProgram(Calls& calls, TestedFile tested, unsigned char* memory, const FaultInForce& fault,
                const ByteSources& sources, bool has_cache)
      : calls_(calls),
        tested_(std::move(tested)),
        path_(tested_.path),
        memory_(memory),
        fault_(fault),
        sources_(sources),
        file_(sources),
        has_cache_(has_cache) {}

  void run() {
    tested_.write(sources_.data(next_source_, 0, first_bytes));
    file_.write(next_source_++, 0, first_bytes, first_bytes);
    file_.secure();
    open(first, O_RDWR);
    pread(first, 100, 5000);
    pwrite(first, 3000, 2500);
    open(second, O_RDWR | O_CREAT);
    pwrite(second, 4100, 300);
    fstat(first);
    sync(first, &Calls::fsync);
    open(appender, O_WRONLY | O_APPEND);
    append(700);
    pwritev(second, 8000, 1200);
    pread_async(first, 7000, 4000);
    truncate(first, 6000);
    pwrite(first, 10'000, 500);
    sync(second, &Calls::fdatasync);
    prefetch_and_hold();
    scatter(second, 500);
    evict(first);
    pread(second, 0, 12'000);
    append(300);
    close(appender);
    pwrite_async(second, 1024, 3000);
    write_at_position(first);
    flush(second);
    pwrite(second, 200, 100);
    close(first);
    pread(second, 0, 8192);
    pwrite(second, 6000, 4096);
    close(second);
    check_stored("after the last close");
    transfer_directly();
    pass_by();
    expect_reports();
  }

 private:
  enum Handle : std::uint8_t { first, second, appender, direct, handles };
  struct Opened {
    int handle = 0;
    bool at_strike = false;  // was open when the point struck
    bool by_struck_call = false;
    unsigned reports = 0;  // errors of syncs, flushes and closes
  };

  // ---- results

  // Makes a call. Returns its result, which must be a success or the error of the fault.
  template <class Call>
  std::int64_t make(const char* what, const Call& call) {
    const unsigned struck_before = fault_.point.times_struck();
    const std::int64_t result = [&] {
      const PointsHere counts(true);
      return static_cast<std::int64_t>(call());
    }();
    struck_now_ = fault_.point.times_struck() > struck_before;
    if (struck_now_) {
      struck_in_ = what;
      struck_result_ = result;
      for (Opened& one : opened_)
        one.at_strike = one.handle > 0;
    }
    if (result < 0) {
      EXPECT_TRUE(fault_.point.struck()) << what << " returned " << result << " without a fault";
      EXPECT_TRUE(fault_.is_expected(static_cast<int>(-result)))
          << what << " returned " << result << "; the fault struck in " << struck_in_;
    }
    return result;
  }
  static std::uint64_t moved(std::int64_t result) {
    return result > 0 ? static_cast<std::uint64_t>(result) : 0;
  }
  void expect_legal(const char* what, const std::string& problem) const {
    EXPECT_EQ(problem, "") << what << "; the fault struck in " << struck_in_ << ", which returned "
                           << struck_result_;
  }

  // ---- calls; those of a handle that could not be opened are left out

  bool open(Handle which, int flags) {
    const auto result = make("open", [&] { return calls_.open(path_.c_str(), flags, 0644); });
    opened_[which] = {result > 0 ? static_cast<int>(result) : 0, false, struck_now_, 0};
    return result > 0;
  }
  void pread(Handle which, std::uint64_t offset, std::uint64_t bytes) {
    if (opened_[which].handle == 0) return;
    std::string got(bytes, '?');
    const auto result = make("pread", [&] {
      return calls_.pread(opened_[which].handle, got.data(), bytes,
                          static_cast<std::int64_t>(offset));
    });
    look_at_read("pread", offset, got, result);
  }
  void pread_async(Handle which, std::uint64_t offset, std::uint64_t bytes) {
    if (opened_[which].handle == 0) return;
    const auto result = make("pread_async", [&] {
      device::Pending pending = calls_.pread_async(opened_[which].handle, memory_, bytes,
                                                   static_cast<std::int64_t>(offset));
      return calls_.wait(pending);
    });
    look_at_read("pread_async", offset, in_memory(bytes), result);
  }
  std::string in_memory(std::uint64_t bytes) const {
    return {reinterpret_cast<const char*>(memory_), static_cast<std::size_t>(bytes)};
  }
  void look_at_read(const char* what, std::uint64_t offset, std::string_view got,
                    std::int64_t result) const {
    if (result < 0) return;
    const std::string_view part = got.substr(0, static_cast<std::size_t>(result));
    expect_legal(what, file_.look_at_read(offset, part, got.size(), struck_now_));
  }

  template <class Call>
  void change(const char* what, std::uint64_t offset, std::uint64_t bytes, const Call& call) {
    const unsigned source = next_source_++;
    const std::string_view data =
        sources_.data(source, static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    const std::int64_t result = make(what, [&] { return call(data); });
    struck_change_ = struck_change_ || struck_now_;
    file_.write(source, offset, moved(result), bytes);
  }
  void pwrite(Handle which, std::uint64_t offset, std::uint64_t bytes) {
    if (opened_[which].handle == 0) return;
    change("pwrite", offset, bytes, [&](std::string_view data) {
      return calls_.pwrite(opened_[which].handle, data.data(), data.size(),
                           static_cast<std::int64_t>(offset));
    });
  }
  void pwrite_async(Handle which, std::uint64_t offset, std::uint64_t bytes) {
    if (opened_[which].handle == 0) return;
    change("pwrite_async", offset, bytes, [&](std::string_view data) {
      std::memcpy(memory_, data.data(), data.size());
      device::Pending pending = calls_.pwrite_async(opened_[which].handle, memory_, data.size(),
                                                    static_cast<std::int64_t>(offset));
      return calls_.wait(pending);
    });
  }
  void pwritev(Handle which, std::uint64_t offset, std::uint64_t bytes) {
    if (opened_[which].handle == 0) return;
    change("pwritev", offset, bytes, [&](std::string_view data) {
      auto* begin = const_cast<char*>(data.data());
      const device::IoVector pieces[2] = {{begin, 100}, {begin + 100, data.size() - 100}};
      return calls_.pwritev(opened_[which].handle, pieces, 2, static_cast<std::int64_t>(offset));
    });
  }
  // More pieces than a page keeps ranges.
  void scatter(Handle which, std::uint64_t offset) {
    for (std::uint64_t i = 0; i < 6; ++i)
      pwrite(which, offset + i * 500, 40);
  }
  void write_at_position(Handle which) {
    if (opened_[which].handle == 0) return;
    change("write", 0, 600, [&](std::string_view data) {
      return calls_.write(opened_[which].handle, data.data(), data.size());
    });
  }
  void append(std::uint64_t bytes) {
    fstat(opened_[second].handle != 0 ? second : first);
    if (opened_[appender].handle == 0 || !file_.knows_size()) return;
    change("append", file_.size(), bytes, [&](std::string_view data) {
      return calls_.pwrite(opened_[appender].handle, data.data(), data.size(), 0);
    });
  }
  void truncate(Handle which, std::uint64_t to) {
    if (opened_[which].handle == 0) return;
    const auto result = make("ftruncate", [&] {
      return calls_.ftruncate(opened_[which].handle, static_cast<std::int64_t>(to));
    });
    struck_change_ = struck_change_ || struck_now_;
    file_.truncate(to, result == 0);
  }
  void fstat(Handle which) {
    if (opened_[which].handle == 0) return;
    device::FileStatus status{};
    if (make("fstat", [&] { return calls_.fstat(opened_[which].handle, &status); }) != 0) return;
    EXPECT_TRUE(file_.may_have_size(status.size_bytes)) << status.size_bytes << " bytes";
    if (!fault_.may_be_done) file_.has_size(status.size_bytes);
  }
  void prefetch_and_hold() {
    if (opened_[first].handle == 0) return;
    make("prefetch", [&] { return calls_.prefetch(opened_[first].handle, 0, 8192); });
    if (!has_cache_) return;
    device::cache::PinnedView view;
    const auto result =
        make("hold", [&] { return calls_.hold(opened_[first].handle, 0, 4096, view); });
    if (result <= 0) return;
    const std::string_view got(reinterpret_cast<const char*>(view.data),
                               static_cast<std::size_t>(result));
    expect_legal("hold", file_.look_at_read(0, got, got.size(), true));
    calls_.release(view);
  }

  // Success means that what was written before is in the storage.
  void sync(Handle which, int (Calls::*call)(int)) {
    if (opened_[which].handle == 0) return;
    const auto result = make("sync", [&] { return (calls_.*call)(opened_[which].handle); });
    note_report(which, result);
    if (result != 0) return;
    file_.secure();
    check_stored("after a sync");
  }
  void flush(Handle which) {
    if (opened_[which].handle == 0) return;
    note_report(which, make("flush", [&] { return calls_.flush(opened_[which].handle); }));
  }
  // Advice: its error is no report.
  void evict(Handle which) {
    if (opened_[which].handle == 0) return;
    make("evict", [&] { return calls_.evict(opened_[which].handle); });
  }
  void close(Handle which) {
    if (opened_[which].handle == 0) return;
    const auto result = make("close", [&] { return calls_.close(opened_[which].handle); });
    note_report(which, result);
    opened_[which].handle = 0;
    for (const Opened& one : opened_)
      if (one.handle != 0) return;
    // What could be written later is written: only what fails now is lost.
    if (result != 0 && (struck_now_ || fault_.is_late)) {
      file_.lose();
    } else {
      file_.secure();
    }
  }
  void note_report(Handle which, std::int64_t result) {
    if (result < 0) ++opened_[which].reports;
  }

  void check_stored(const char* what) const {
    expect_legal(what, file_.look_at_stored(tested_.read()));
  }

  // ---- the parts that need no cache

  void transfer_directly() {
    if (open(direct, O_RDWR | O_DIRECT)) {
      change("direct write", 4096, 4096, [&](std::string_view data) {
        std::memcpy(memory_, data.data(), data.size());
        return calls_.pwrite(opened_[direct].handle, memory_, data.size(), 4096);
      });
      const auto result = make("direct read", [&] {
        return calls_.pread(opened_[direct].handle, memory_ + 4096, 4096, 0);
      });
      look_at_read("direct read", 0, in_memory(8192).substr(4096), result);
      sync(direct, &Calls::fsync);
      close(direct);
    }
    check_stored("after direct I/O");
  }
  void pass_by() {
    device::FileStatus status{};
    if (make("stat", [&] { return calls_.stat(path_.c_str(), &status); }) == 0) {
      EXPECT_TRUE(file_.may_have_size(status.size_bytes)) << status.size_bytes << " bytes";
    }
    const auto result = make("unlink", [&] { return calls_.unlink(path_.c_str()); });
    if (result == 0) {
      EXPECT_FALSE(tested_.exists());
    }
    tested_.remove();
  }

  // An error of write-back reaches one sync, flush or close of each handle, once.
  void expect_reports() const {
    if (!fault_.point.struck() || fault_.is_late) return;
    for (const Opened& one : opened_)
      EXPECT_LE(one.reports, 1U) << "the fault struck in " << struck_in_;
    // Not a write-back: the call that failed was told.
    if (!fault_.hit_write() || (struck_change_ && struck_result_ < 0)) return;
    for (const Opened& one : opened_) {
      if (one.by_struck_call) continue;
      EXPECT_EQ(one.reports, one.at_strike ? 1U : 0U)
          << "handle " << &one - opened_.data() << ", the fault struck in " << struck_in_;
    }
  }

  Calls& calls_;
  const TestedFile tested_;
  const std::string& path_;
  unsigned char* const memory_;
  const FaultInForce& fault_;
  const ByteSources& sources_;
  PossibleFile file_;
  const bool has_cache_;
  unsigned next_source_ = 0;
  std::array<Opened, handles> opened_;
  // The call that the fault struck: whether it is the last one, what it was and returned.
  bool struck_now_ = false;
  bool struck_change_ = false;
  const char* struck_in_ = "nothing";
  std::int64_t struck_result_ = 0;
};

}  // namespace ferry::test
