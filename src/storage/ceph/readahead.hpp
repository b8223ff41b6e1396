// Which reads of an open file of CephFS are in order, and how far to read ahead of them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace ferry::storage {

// Where small reads come in order, one larger read, a window, takes the place of one of them.
// libcephfs keeps what it brings and gives it to the reads that follow, for as long as the servers
// let it: it is an ordinary read, under the right to cache that it holds. Nothing is kept here but
// offsets and times.
//
// Each stream of reads has a credit: twice the bytes that its reads asked for, less what they and
// the windows fetched. A window costs its length, so no more than twice the bytes are fetched
// whatever comes, while the library keeps them. The credit is no longer than a window: reads in
// order do not pay for many windows of which little is read then. It begins anew after a window
// that was of no use. If reads within windows are hardly faster than the ones before, the library
// has the bytes already, or keeps none: there are no more windows until reads are slow again.
//
// Thread-safe. Does not block.
class CephReadahead {
 public:
  using Time = std::chrono::steady_clock::duration;
  static constexpr std::int64_t window_max = std::int64_t{1} << 20;
  // Larger reads gain nothing.
  static constexpr std::int64_t small_max = window_max / 4;
  // A read within a window takes less than this part of the time, or windows do not help.
  static constexpr int gain_min = 3;
  static constexpr unsigned judged_reads = 8;  // within windows
  static constexpr unsigned slow_reads = 2;    // in a row; one may be the machine's fault

  struct Reach {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;  // to read from there on: the read's own, or a window
    bool is_window = false;  // the file must be one that may be cached, else drop()
    bool in_window = false;
    std::uint64_t stream = 0;  // 0: none
  };
  // A read begins.
  Reach begin(std::int64_t offset, std::int64_t bytes);
  // It found so many bytes and took so long. Fewer than it was to read: its stream goes on where
  // they end, also if the file grows later.
  void end(const Reach& read, std::int64_t got, Time took);
  // Windows of this read's stream are of no use now.
  void drop(const Reach& read);

 private:
  // Reads that follow each other. In a window, those of several threads may overtake each other.
  struct Stream {
    std::uint64_t name = 0;
    std::uint64_t used = 0;
    std::int64_t credit = 0;
    std::int64_t next = -1;
    std::int64_t window_begin = 0;
    std::int64_t window_end = 0;  // as window_begin: none
    // The fastest read before the windows, and in the latest ones.
    Time before = Time::max();
    Time within = Time::max();
    unsigned reads_within = 0;
    bool rests = false;  // without windows
    unsigned slow = 0;   // reads in a row while it rests

    bool has(std::int64_t offset) const {
      return offset == next ||
             (window_begin < window_end && offset >= window_begin && offset <= window_end);
    }
    bool gains();
    void add(std::int64_t bytes) { credit = std::min(credit + bytes, window_max); }
    void begin_anew();
  };
  Stream* stream_at(std::int64_t offset);
  Stream* stream_of(const Reach& read);

  std::mutex mutex_;  // guards what follows
  std::array<Stream, 8> streams_;
  std::uint64_t clock_ = 0;
};

}  // namespace ferry::storage
