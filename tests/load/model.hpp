// What a caller knows of its own bytes: where they come from after each call and its result.
//
// Bytes are computed from a key (seed, file, place, generation) and a position. A write that failed
// leaves old or new bytes. What was written since the last sync, flush or close that succeeded may
// be lost by a close that fails.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ferry::load {

using Bytes = std::span<const unsigned char>;

constexpr std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of a key of zero all bytes are zero: a hole.
inline constexpr std::uint64_t hole = 0;

inline unsigned char byte_of(std::uint64_t key, std::uint64_t at) {
  if (key == hole) return 0;
  return static_cast<unsigned char>(mixed(key + at / 8) >> (at % 8 * 8));
}
inline void fill(std::span<unsigned char> to, std::uint64_t key, std::uint64_t from = 0) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = byte_of(key, from + i);
}

// A place that one caller alone writes, always all of it.
class OwnedPiece {
 public:
  static constexpr std::size_t bytes = 1500;

  // `key` is new in each write.
  void wrote(std::uint64_t key, bool all_of_it) {
    if (all_of_it) seen_.clear();
    seen_.push_back(key);
    stored_.push_back(key);
  }
  // What calls see is in the storage.
  void secure() { stored_ = seen_; }
  // A close failed: what was not secured may be lost.
  void lose() { seen_ = stored_; }
  // So many failures came together that a check would take long: it takes a success first.
  bool is_crowded() const { return stored_.size() >= 32; }
  bool was_written() const { return std::ranges::find(seen_, hole) == seen_.end(); }
  // Whether these bytes, from the beginning, may be there.
  bool allows(Bytes got) const {
    for (std::size_t at = 0; at < got.size(); ++at) {
      const bool known = std::ranges::any_of(
          seen_, [&](std::uint64_t key) { return byte_of(key, at) == got[at]; });
      if (!known) return false;
    }
    return true;
  }

 private:
  std::vector<std::uint64_t> seen_{hole};
  std::vector<std::uint64_t> stored_{hole};
};

// A file that one caller alone uses and extends. After an error it is known no more, until it is
// made anew.
class OwnFile {
 public:
  static constexpr std::uint64_t bytes_max = 24 << 10;

  bool is_known() const { return known_; }
  std::uint64_t size() const { return parts_.empty() ? 0 : parts_.back().end; }
  void is_new() {
    parts_.clear();
    known_ = true;
  }
  void forget() { known_ = false; }

  void append(std::uint64_t key, std::uint64_t bytes) {
    parts_.push_back({key, size(), size() + bytes});
  }
  void truncate(std::uint64_t to) {
    while (!parts_.empty() && parts_.back().begin >= to)
      parts_.pop_back();
    if (size() < to) append(hole, to - size());
    if (!parts_.empty()) parts_.back().end = to;
  }
  bool holds(Bytes got, std::uint64_t from) const {
    if (from + got.size() > size()) return false;
    for (const Part& part : parts_) {
      const std::uint64_t end = std::min(part.end, from + got.size());
      for (std::uint64_t at = std::max(part.begin, from); at < end; ++at)
        if (got[at - from] != byte_of(part.key, at - part.begin)) return false;
    }
    return true;
  }

 private:
  struct Part {
    std::uint64_t key;
    std::uint64_t begin;
    std::uint64_t end;
  };
  std::vector<Part> parts_;
  bool known_ = false;
};

}  // namespace ferry::load
