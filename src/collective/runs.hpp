// File extents for messages: regular ones packed into runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/extents.hpp"

namespace ferry::collective {

// `count` extents of `bytes`, `stride` apart from start to start. Sent as is.
struct Run {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
  bool operator==(const Run&) const = default;
  bool is_extent() const { return count == 1; }
};

// Appends ascending extents. Joins neighbours, and packs equal ones at equal distances into a run.
inline void append(std::vector<Run>& runs, const Extent& extent) {
  Run* last = runs.empty() ? nullptr : &runs.back();
  if (last != nullptr && last->count == 1 && last->offset + last->bytes == extent.offset) {
    last->bytes += extent.bytes;
  } else if (last != nullptr && last->count == 1 && last->bytes == extent.bytes) {
    last->stride = extent.offset - last->offset;
    last->count = 2;
  } else if (last != nullptr && last->count > 1 && last->bytes == extent.bytes &&
             last->offset + last->count * last->stride == extent.offset) {
    ++last->count;
  } else {
    runs.push_back({extent.offset, extent.bytes, 0, 1});
  }
}

// The file extents of `bytes` of a view's stream.
inline std::vector<Run> runs_of(const TypeMap& view, std::int64_t displacement, std::int64_t stream,
                                std::int64_t bytes) {
  std::vector<Run> runs;
  Extent joined{0, 0};
  Cursor cursor(view, displacement, stream);
  for (std::int64_t left = bytes; left > 0;) {
    const Extent piece = cursor.next(left);
    left -= piece.bytes;
    // A period may end where the next begins, so neighbours meet here too.
    if (joined.offset + joined.bytes == piece.offset) {
      joined.bytes += piece.bytes;
      continue;
    }
    if (joined.bytes > 0) append(runs, joined);
    joined = piece;
  }
  if (joined.bytes > 0) append(runs, joined);
  return runs;
}

inline std::int64_t bytes_of(std::span<const Run> runs) {
  std::int64_t bytes = 0;
  for (const Run& run : runs)
    bytes += run.bytes * run.count;
  return bytes;
}

// Calls `use(extent)` for each extent of the runs.
template <class Use>
void for_each_extent(std::span<const Run> runs, Use&& use) {
  for (const Run& run : runs)
    for (std::int64_t i = 0; i < run.count; ++i)
      use(Extent{run.offset + i * run.stride, run.bytes});
}

// Reduces many runs to few: joins ranks' runs that fill each other's gaps, and runs with gaps of at
// most `gap_bytes`. Covers the same bytes, plus those gaps.
inline void merge(std::vector<Run>& runs, std::int64_t gap_bytes) {
  for (Run& run : runs) {
    if (run.count == 1 || run.stride - run.bytes > gap_bytes) continue;
    run = {run.offset, (run.count - 1) * run.stride + run.bytes, 0, 1};
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.offset < b.offset; });
  std::size_t kept = 0;
  for (const Run& run : runs) {
    if (kept > 0) {
      Run& last = runs[kept - 1];
      if (run.count == 1 && last.count == 1 && last.offset + last.bytes == run.offset) {
        last.bytes += run.bytes;
        continue;
      }
      if (run.count > 1 && last.count == run.count && last.stride == run.stride &&
          last.offset + last.bytes == run.offset && last.bytes + run.bytes <= last.stride) {
        last.bytes += run.bytes;
        if (last.bytes == last.stride) last = {last.offset, last.count * last.stride, 0, 1};
        continue;
      }
    }
    runs[kept++] = run;
  }
  runs.resize(kept);
}

// Sorts extents and joins those that overlap or are at most `gap_bytes` apart.
inline void join(std::vector<Extent>& extents, std::int64_t gap_bytes) {
  const auto before = [](const Extent& a, const Extent& b) { return a.offset < b.offset; };
  std::sort(extents.begin(), extents.end(), before);
  std::size_t kept = 0;
  for (const Extent& extent : extents) {
    if (kept > 0) {
      Extent& last = extents[kept - 1];
      const std::int64_t end = last.offset + last.bytes;
      if (extent.offset <= end + gap_bytes) {
        last.bytes = std::max(end, extent.offset + extent.bytes) - last.offset;
        continue;
      }
    }
    extents[kept++] = extent;
  }
  extents.resize(kept);
}

}  // namespace ferry::collective
