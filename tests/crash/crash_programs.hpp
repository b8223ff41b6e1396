// Programs of a few file calls, each made through Ferry over a recording storage: all sequences of
// one and two operations, after Mohan et al. (OSDI 2018).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/crash_promises.hpp"
#include "crash/recording_storage.hpp"
#include "support/one_caller_rig.hpp"

namespace ferry::test {

// What one operation does. `handle`: one of two with O_RDWR, opened at first use.
struct CrashStep {
  enum class Does : std::uint8_t {
    write,    // `bytes` at `offset`
    scatter,  // `bytes` at each of six places: more than a page keeps ranges
    append,   // by a handle with O_APPEND
    truncate,
    fsync,
    fdatasync,
    flush,
    close,
    evict,
    rename,
    replace,  // renames over another file
    unlink,
    fork
  };
  const char* name;
  Does does;
  unsigned handle = 0;
  std::uint64_t offset = 0;  // of a truncation: the new size
  std::uint64_t bytes = 0;
};

inline const std::vector<CrashStep>& crash_steps() {
  using Does = CrashStep::Does;
  static const std::vector<CrashStep> steps = {
      {"write across the end", Does::write, 0, 8900, 700},
      {"write beyond the end", Does::write, 0, 10'100, 300},
      {"write a page behind the end", Does::write, 1, 12'288, 1000},
      {"overwrite a few bytes", Does::write, 0, 4100, 100},
      {"overwrite by another handle", Does::write, 1, 4150, 400},
      {"overwrite across pages", Does::write, 0, 3000, 2500},
      {"overwrite whole pages", Does::write, 0, 0, 8192},
      {"overwrite a sector", Does::write, 1, 512, 512},
      {"write in many places", Does::scatter, 0, 4200, 40},
      {"append a few bytes", Does::append, 0, 0, 100},
      {"append a page", Does::append, 0, 0, 4096},
      {"cut in a page", Does::truncate, 0, 5000},
      {"cut by another handle", Does::truncate, 1, 4096},
      {"cut all", Does::truncate, 0, 0},
      {"extend", Does::truncate, 0, 12'000},
      {"fsync", Does::fsync, 0},
      {"fsync of another handle", Does::fsync, 1},
      {"fdatasync", Does::fdatasync, 0},
      {"fdatasync of another handle", Does::fdatasync, 1},
      {"flush", Does::flush, 0},
      {"close", Does::close, 0},
      {"close another handle", Does::close, 1},
      {"evict", Does::evict, 0},
      {"rename", Does::rename},
      {"rename over a file", Does::replace},
      {"unlink", Does::unlink},
      {"fork", Does::fork}};
  return steps;
}

// How a program runs.
struct CrashSetup {
  const char* name;
  device::Placement placement = device::Placement::compute;
  std::uint32_t cache_pages = 16;  // 0: no cache
  bool is_new = false;             // the program makes the file
  bool is_warm = false;            // and has read it, if it was there
  int other_flags = 0;             // of the other handle
};

inline void PrintTo(const CrashSetup& setup, std::ostream* out) {
  *out << setup.name;
}

inline std::vector<CrashSetup> crash_setups() {
  using device::Placement;
  return {{"Host", Placement::host, 0},
          {"HostNewFile", Placement::host, 0, true},
          {"HostBesideCache", Placement::host, 16, false, true},
          {"Compute"},
          {"ComputeWarm", Placement::compute, 16, false, true},
          {"ComputeNewFile", Placement::compute, 16, true},
          {"ComputeSynchronous", Placement::compute, 16, false, true, O_DSYNC},
          {"ComputeFewPages", Placement::compute, 4, false, true},
          {"ComputeFewPagesNewFile", Placement::compute, 4, true},
          {"Service", Placement::service},
          {"ServiceWarm", Placement::service, 16, false, true},
          {"ServiceNewFile", Placement::service, 16, true},
          {"ServiceFewPages", Placement::service, 4, false, true},
          {"AutomaticWarm", Placement::automatic, 16, false, true}};
}

struct CrashRig : OneCallerRig<RecordingStorage> {
  CrashRig(device::Placement placement, std::uint32_t cache_pages)
      : OneCallerRig(std::make_unique<RecordingStorage>(), placement, cache_pages) {}
};

// One run of a program: its calls, and what they left in the log.
class CrashProgram {
 public:
  static constexpr std::uint64_t first_bytes = 9000;
  static constexpr std::uint64_t other_bytes = 700;

  CrashProgram(CrashRig& rig, const CrashSetup& setup, const ByteSources& sources)
      : files_(*rig.calls), storage_(*rig.storage), setup_(setup), sources_(sources) {
    storage_.clear();
    put("other", other_bytes);
    if (!setup.is_new) put("file", first_bytes);
    next_source_ = static_cast<unsigned>(first.size());
    file_ = first.size() - 1;
    files_made_ = first.size();
    if (setup.is_new) {
      exists_ = false;
      handle(0);
    }
    if (setup.is_warm) look();
  }
  ~CrashProgram() {
    for (unsigned i = 0; i < handles; ++i)
      close_handle(i);
  }
  CrashProgram(const CrashProgram&) = delete;
  CrashProgram& operator=(const CrashProgram&) = delete;

  void make(const CrashStep& step) {
    using Does = CrashStep::Does;
    switch (step.does) {
      case Does::write:
        write(step.handle, step.offset, step.bytes);
        break;
      case Does::scatter:
        for (std::uint64_t i = 0; i < 6; ++i)
          write(step.handle, step.offset + i * 600, step.bytes);
        break;
      case Does::append:
        write(appender, size_, step.bytes);
        break;
      case Does::truncate: {
        const int at = handle(step.handle);
        MadeCall call{.what = What::truncate, .file = file_, .offset = step.offset};
        finish(call, [&] { return files_.ftruncate(at, static_cast<std::int64_t>(step.offset)); });
        size_ = step.offset;
        break;
      }
      case Does::fsync:
        sync(step.handle, [&](int at) { return files_.fsync(at); });
        break;
      case Does::fdatasync:
        sync(step.handle, [&](int at) { return files_.fdatasync(at); });
        break;
      case Does::flush: {
        const int at = handle(step.handle);
        finish({.what = What::handed_over, .file = file_}, [&] { return files_.flush(at); });
        break;
      }
      case Does::close:
        handle(step.handle);
        close_handle(step.handle);
        break;
      case Does::evict: {
        const int at = handle(step.handle);
        finish({.what = What::handed_over, .file = file_}, [&] { return files_.evict(at); });
        break;
      }
      case Does::rename:
        rename("renamed");
        break;
      case Does::replace:
        rename("other");
        break;
      case Does::unlink:
        if (!exists_) break;
        finish({.what = What::unlink, .file = file_, .name = name_},
               [&] { return files_.unlink(name_.c_str()); });
        exists_ = false;
        break;
      case Does::fork:
        fork_a_child();
        break;
    }
  }

  std::vector<FirstFile> first;
  std::vector<std::pair<std::string, std::string>> contents;  // of them
  std::vector<MadeCall> calls;

 private:
  using What = MadeCall::What;
  static constexpr unsigned appender = 2;
  static constexpr unsigned handles = 3;

  void put(const std::string& name, std::uint64_t bytes) {
    contents.emplace_back(name, sources_.data(static_cast<unsigned>(first.size()), 0,
                                              static_cast<std::size_t>(bytes)));
    storage_.put(name, contents.back().second);
    first.push_back({name, bytes});
  }
  template <class Make>
  std::int64_t finish(MadeCall call, const Make& made_by) {
    call.began = storage_.length();
    const std::int64_t result = made_by();
    call.returned = storage_.length();
    EXPECT_GE(result, 0);
    calls.push_back(std::move(call));
    return result;
  }
  // A name that is gone is made anew.
  int handle(unsigned which) {
    if (open_[which] != 0) return open_[which];
    int flags = O_RDWR | O_CREAT;
    if (which == 1) flags |= setup_.other_flags;
    if (which == appender) flags = O_WRONLY | O_CREAT | O_APPEND;
    const auto open = [&] { return files_.open(name_.c_str(), flags, 0644); };
    if (exists_) {
      open_[which] = open();
    } else {
      for (unsigned i = 0; i < handles; ++i)
        close_handle(i);
      file_ = files_made_++;
      open_[which] =
          static_cast<int>(finish({.what = What::create, .file = file_, .name = name_}, open));
      exists_ = true;
      size_ = 0;
    }
    EXPECT_GT(open_[which], 0);
    return open_[which];
  }
  void close_handle(unsigned which) {
    if (open_[which] == 0) return;
    finish({.what = What::handed_over, .file = file_},
           [&] { return files_.close(std::exchange(open_[which], 0)); });
  }
  void write(unsigned which, std::uint64_t offset, std::uint64_t bytes) {
    const int at = handle(which);
    if (which == appender) offset = size_;
    ASSERT_LT(next_source_, ByteSources::count);
    const unsigned source = next_source_++;
    MadeCall call{.what = What::write,
                  .file = file_,
                  .offset = offset,
                  .bytes = bytes,
                  .source = source,
                  .durable = which == 1 && (setup_.other_flags & O_DSYNC) != 0,
                  .at_once = setup_.cache_pages == 0};
    const auto data =
        sources_.data(source, static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    EXPECT_EQ(finish(call,
                     [&] {
                       return files_.pwrite(at, data.data(), data.size(),
                                            static_cast<std::int64_t>(offset));
                     }),
              static_cast<std::int64_t>(bytes));
    size_ = std::max(size_, offset + bytes);
  }
  template <class Sync>
  void sync(unsigned which, const Sync& how) {
    const int at = handle(which);
    finish({.what = What::sync, .file = file_}, [&] { return how(at); });
  }
  void rename(const std::string& new_name) {
    if (!exists_ || name_ == new_name) return;
    finish({.what = What::rename, .file = file_, .name = name_, .new_name = new_name}, [&] {
      storage_.rename(name_, new_name);
      return 0;
    });
    name_ = new_name;
  }
  // The child has neither the device's memory nor the server.
  static void fork_a_child() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  void look() {
    const int at = handle(0);
    EXPECT_EQ(read_at(files_, at, first_bytes, 0).size(), exists_ ? size_ : 0);
  }

  Calls& files_;
  RecordingStorage& storage_;
  const CrashSetup& setup_;
  const ByteSources& sources_;
  unsigned next_source_ = 0;
  int open_[handles] = {};
  // The file that the program works on.
  std::size_t file_ = 0;
  std::size_t files_made_ = 0;
  std::string name_ = "file";
  std::uint64_t size_ = first_bytes;
  bool exists_ = true;
};

}  // namespace ferry::test
