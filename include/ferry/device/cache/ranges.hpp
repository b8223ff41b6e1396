// The written ranges of a frame that are not yet in storage.
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>

namespace ferry::device::cache {

// A copy of a frame's written ranges.
struct Ranges {
  Range list[ranges_max];
  std::uint32_t count = 0;
};

// The written ranges of one frame. Every function needs range_lock held.
//
// A write-back takes them all, and each keeps its place in the list until it ends: so ranges it
// could not write always fit back. That holds while range_count and taken_count together do not
// exceed ranges_max: a returning range frees one place and needs at most one.
class RangeList {
 public:
  FERRY_DEVICE explicit RangeList(Frame& frame) : frame_(frame) {}

  FERRY_DEVICE bool covers(Range range) const {
    for (std::uint32_t i = 0; i < frame_.range_count; ++i) {
      if (frame_.ranges[i].begin <= range.begin && range.end <= frame_.ranges[i].end) return true;
    }
    return false;
  }

  // Returns false if there is no place, without effects.
  FERRY_DEVICE bool add(Range range) {
    // Ranges that touch it are merged; they are neighbours in the sorted list.
    std::uint32_t first = 0;
    while (first < frame_.range_count && frame_.ranges[first].end < range.begin)
      ++first;
    std::uint32_t last = first;
    while (last < frame_.range_count && frame_.ranges[last].begin <= range.end) {
      const Range& touching = frame_.ranges[last++];
      if (touching.begin < range.begin) range.begin = touching.begin;
      if (touching.end > range.end) range.end = touching.end;
    }
    const std::uint32_t merged = last - first;
    if (merged == 0 && frame_.range_count + frame_.taken_count == ranges_max) return false;
    if (merged == 0) {
      for (std::uint32_t i = frame_.range_count; i > first; --i)
        frame_.ranges[i] = frame_.ranges[i - 1];
    } else {
      for (std::uint32_t i = last; i < frame_.range_count; ++i)
        frame_.ranges[i - merged + 1] = frame_.ranges[i];
    }
    frame_.ranges[first] = range;
    frame_.range_count = static_cast<std::uint16_t>(frame_.range_count + 1 - merged);
    return true;
  }

  // Empties the list for a write-back. Ranges that it cannot write return one by one; all_back()
  // ends it.
  FERRY_DEVICE Ranges take() {
    const Ranges ranges = copy();
    frame_.taken_count = frame_.range_count;
    frame_.range_count = 0;
    return ranges;
  }
  FERRY_DEVICE void put_back(Range range) {
    --frame_.taken_count;
    add(range);
  }
  FERRY_DEVICE void all_back() { frame_.taken_count = 0; }

  // Drops everything at or after `end`.
  FERRY_DEVICE void cut(std::uint32_t end) {
    while (frame_.range_count > 0 && frame_.ranges[frame_.range_count - 1].begin >= end)
      --frame_.range_count;
    if (frame_.range_count == 0) return;
    Range& last = frame_.ranges[frame_.range_count - 1];
    if (last.end > end) last.end = end;
  }

  FERRY_DEVICE Ranges copy() const {
    Ranges ranges;
    ranges.count = frame_.range_count;
    for (std::uint32_t i = 0; i < ranges.count; ++i)
      ranges.list[i] = frame_.ranges[i];
    return ranges;
  }

 private:
  Frame& frame_;
};

}  // namespace ferry::device::cache
