// In-memory files behind the page cache: the storage of its tests. Knows which bytes the program
// wrote, so it detects any others; fails on demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <ferry/device/cache/page_cache.hpp>

#include "base/sanitizer.hpp"
#include "support/depth.hpp"

namespace ferry::test {

// Shared by all groups. Handle h is file h - 1. Thread-safe.
class MemoryFiles {
 public:
  static constexpr int closed = -1;  // a handle whose file is gone

  explicit MemoryFiles(std::size_t count) : files_(count) {}
  // Fails if `random` decides so.
  MemoryFiles(std::size_t count, Random random) : files_(count), random_(std::move(random)) {}

  struct Faults {
    std::atomic<unsigned> reads_one_in{0};  // 0: never
    std::atomic<unsigned> writes_one_in{0};
    // Transfers some bytes, then fails.
    std::atomic<unsigned> short_reads_one_in{0};
    std::atomic<unsigned> short_writes_one_in{0};
    std::atomic<int> error{EIO};
    std::atomic<int> handle{0};  // whose writes fail; 0: everybody's
    std::atomic<bool> delays{false};
    std::atomic<bool> late{false};
  };
  Faults faults;
  // Called once, by the next write, before it does anything.
  std::function<void()> at_next_write;

  std::int64_t read(int handle, const device::cache::Piece* pieces, std::uint32_t count,
                    std::int64_t offset) {
    wait_a_little();
    const std::int64_t got = read_now(handle, pieces, count, offset);
    if (after_read) after_read();
    return got;
  }
  // Called at the end of every read, before the cache gets its answer. Set it before first use.
  std::function<void()> after_read;

  std::int64_t write(int handle, const device::cache::Piece* pieces, std::uint32_t count,
                     std::int64_t offset) {
    wait_a_little();
    if (at_next_write) std::exchange(at_next_write, nullptr)();
    const std::lock_guard lock(mutex_);
    ++write_requests;
    if (handle < 1) return -EBADF;
    if ((faults.handle == 0 || faults.handle == handle) && fails(faults.writes_one_in)) {
      ++failed_writes;
      has_failed_ = true;
      return -faults.error;
    }
    File& file = files_.at(static_cast<std::size_t>(handle - 1));
    ++writes;
    auto at = static_cast<std::size_t>(offset);
    std::int64_t done = 0;
    std::size_t limit = limit_of(faults.short_writes_one_in, pieces, count);
    if (limit != ~std::size_t{0}) has_failed_ = true;
    for (std::uint32_t i = 0; i < count && limit > 0; ++i) {
      const std::size_t bytes = std::min<std::size_t>(pieces[i].bytes, limit);
      limit -= bytes;
      const std::size_t end = at + bytes;
      if (file.data.size() < end) file.data.resize(end, '\0');
      strangers += file.strangers(at, end);
      // Like the kernel's: a page may change during its write-back (frames.hpp, F3).
      const UnseenReads unseen;
      std::memcpy(file.data.data() + at, pieces[i].data, bytes);
      done += static_cast<std::int64_t>(bytes);
      at = end;
    }
    written_bytes += static_cast<std::uint64_t>(done);
    return done;
  }

  // For the calling thread, which is a group.
  static unsigned char* staging() {
    thread_local std::vector<unsigned char> area(staging_bytes());
    return area.data();
  }
  static constexpr std::uint64_t staging_bytes() { return 64 << 10; }
  std::atomic<std::uint64_t> pull_limit{0};
  std::uint64_t pull_bytes() const { return pull_limit; }

  // Executes a flight where it is started; with faults.late, answers it only when a party waits for
  // it or has looked a few times.
  std::uint32_t loop() const { return 0; }
  void expect(std::uint32_t) {}
  int start(device::cache::Flight::Kind kind, int handle, const device::cache::Piece* pieces,
            std::uint32_t count, std::int64_t offset, std::uint32_t flight,
            std::uint32_t sequence) {
    const std::int64_t result = kind != device::cache::Flight::reads
                                    ? write(handle, pieces, count, offset)
                                    : read(handle, pieces, count, offset);
    const std::lock_guard lock(mutex_);
    answers_[flight] = Answer{sequence, result, faults.late ? 3U : 0U};
    return 0;
  }
  bool answered(std::uint32_t flight, std::uint32_t sequence) {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[flight];
    if (answer.sequence != sequence) return false;
    if (answer.looks_left == 0) return true;
    --answer.looks_left;
    return false;
  }
  int wait(std::uint32_t flight, std::uint32_t sequence) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (static_cast<std::int32_t>(answers_[flight].sequence - sequence) >= 0) return 0;
      }
      std::this_thread::yield();
    }
  }
  std::int64_t result(std::uint32_t flight) {
    const std::lock_guard lock(mutex_);
    return answers_[flight].result;
  }

  // Announces that the program will write these bytes, or has cut the file here. Without `forget`,
  // data announced beyond the cut may still arrive.
  void announce(int handle, std::size_t offset, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    File& file = files_.at(static_cast<std::size_t>(handle - 1));
    if (file.written.size() < offset + bytes) file.written.resize(offset + bytes, '\0');
    std::memset(file.written.data() + offset, 1, bytes);
  }
  void cut(int handle, std::size_t size, bool forget = true) {
    const std::lock_guard lock(mutex_);
    File& file = files_.at(static_cast<std::size_t>(handle - 1));
    file.data.resize(size, '\0');
    if (forget && file.written.size() > size) file.written.resize(size);
  }
  std::string contents(int handle, std::size_t offset = 0,
                       std::size_t bytes = std::string::npos) const {
    const std::lock_guard lock(mutex_);
    return files_.at(static_cast<std::size_t>(handle - 1)).data.substr(offset, bytes);
  }
  void set_contents(int handle, std::string data) {
    const std::lock_guard lock(mutex_);
    files_.at(static_cast<std::size_t>(handle - 1)).data = std::move(data);
  }

  // Read them when no thread works.
  std::uint64_t reads = 0;
  std::uint64_t write_requests = 0;  // also those that failed
  std::uint64_t failed_writes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t strangers = 0;                            // bytes that the program never wrote
  std::map<std::pair<int, std::size_t>, unsigned> loads;  // of 4 KiB each, by where they begin

 private:
  struct File {
    std::string data;
    std::string written;  // for each byte of data: 1 if the program announced it, else 0

    std::uint64_t strangers(std::size_t begin, std::size_t end) const {
      const std::string_view known =
          std::string_view(written).substr(std::min(begin, written.size()), end - begin);
      const std::uint64_t behind = end - begin - known.size();
      if (known.find('\0') == std::string_view::npos) return behind;
      return behind + static_cast<std::uint64_t>(std::count(known.begin(), known.end(), '\0'));
    }
  };
  std::int64_t read_now(int handle, const device::cache::Piece* pieces, std::uint32_t count,
                        std::int64_t offset) {
    const std::lock_guard lock(mutex_);
    if (fails(faults.reads_one_in)) return -faults.error;
    const File& file = files_.at(static_cast<std::size_t>(handle - 1));
    ++reads;
    auto at = static_cast<std::size_t>(offset);
    std::int64_t got = 0;
    std::size_t limit = limit_of(faults.short_reads_one_in, pieces, count);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::size_t piece = 0; piece < pieces[i].bytes; piece += 4096)
        loads[{handle, at + piece}]++;
      const std::size_t rest = at < file.data.size() ? file.data.size() - at : 0;
      const std::size_t step = std::min({std::size_t{pieces[i].bytes}, rest, limit});
      limit -= step;
      if (has_failed_) {
        copy_what_differs(pieces[i].data, file.data.data() + at, step);
      } else {
        std::memcpy(pieces[i].data, file.data.data() + at, step);
      }
      at += step;
      got += static_cast<std::int64_t>(step);
      if (step < pieces[i].bytes) break;
    }
    return got;
  }
  // A page is filled again after a failed write, while readers that saw it valid may still copy.
  // What they copy becomes what it is already (frames.hpp, F2), which is no change that could harm.
  static void copy_what_differs(unsigned char* to, const char* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      const auto byte = static_cast<unsigned char>(from[i]);
      if (to[i] != byte) to[i] = byte;
    }
  }
  struct Answer {
    std::uint32_t sequence = 0;
    std::int64_t result = 0;
    unsigned looks_left = 0;
  };
  bool fails(const std::atomic<unsigned>& one_in) { return one_in != 0 && random_.one_in(one_in); }
  // How many bytes are transferred before something fails.
  std::size_t limit_of(const std::atomic<unsigned>& one_in, const device::cache::Piece* pieces,
                       std::uint32_t count) {
    if (!fails(one_in)) return ~std::size_t{0};
    std::size_t bytes = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      bytes += pieces[i].bytes;
    return bytes > 1 ? random_.between(1, bytes - 1) : ~std::size_t{0};
  }
  void wait_a_little() const {
    if (!faults.delays) return;
    thread_local unsigned turn = 0;
    if (++turn % 3 == 0) std::this_thread::yield();
    if (turn % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  mutable std::mutex mutex_;
  std::vector<File> files_;
  std::map<std::uint32_t, Answer> answers_;
  bool has_failed_ = false;  // a write, at least in part
  Random random_;
};

// Zeroed memory with an empty page cache in it.
class TestCache {
 public:
  TestCache(std::uint32_t page_bytes, std::uint32_t frames, std::uint32_t inodes,
            std::uint32_t groups, device::cache::Switches switches = {}) {
    view_.switches = switches;
    view_.layout = device::cache::lay_out(
        {page_bytes, frames, inodes, groups, device::cache::flights_for(frames)});
    memory_.reset(static_cast<unsigned char*>(
        std::aligned_alloc(4096, (view_.layout.bytes + 4095) / 4096 * 4096)));
    std::memset(memory_.get(), 0, view_.layout.pages);
    // The previous contents of a page must never be visible.
    std::memset(memory_.get() + view_.layout.pages, 0xee, view_.layout.bytes - view_.layout.pages);
    view_.base = memory_.get();
    view_.barriers_everywhere = cpu::host_hooks().barrier_everywhere != nullptr;
    device::cache::prepare(view_);
  }
  // Set before first use: readers announce marks with full barriers.
  void have_readers_make_barriers() { view_.barriers_everywhere = false; }
  const device::cache::View& view() const { return view_; }

  // The sum over all groups.
  device::cache::Counters counters() const {
    device::cache::Counters sum{};
    for (std::uint32_t group = 0; group < view_.layout.geometry.groups; ++group) {
      const device::cache::Counters& one = view_.counters(group);
      sum.hits += one.hits;
      sum.misses += one.misses;
      sum.fills += one.fills;
      sum.fill_bytes += one.fill_bytes;
      sum.evictions += one.evictions;
      sum.write_backs += one.write_backs;
      sum.write_back_bytes += one.write_back_bytes;
      sum.waits += one.waits;
      sum.readahead_issued += one.readahead_issued;
      sum.readahead_used += one.readahead_used;
      sum.readahead_wasted += one.readahead_wasted;
    }
    return sum;
  }

 private:
  struct Free {
    void operator()(unsigned char* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<unsigned char, Free> memory_;
  device::cache::View view_;
};

}  // namespace ferry::test
