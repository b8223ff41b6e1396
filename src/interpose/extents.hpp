// A buffer's unwritten bytes: separate, non-overlapping ranges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace ferry {

class Extents {
 public:
  struct Extent {
    std::uint64_t begin;
    std::uint64_t end;
    bool operator==(const Extent&) const = default;
  };

  Extents() { all_.reserve(few); }
  // Whether one more fits, without memory for which the next add() would ask. True for the first.
  bool make_room() try {
    if (all_.size() == all_.capacity()) all_.reserve(2 * all_.capacity());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  // Adds [begin, end), merged with those it touches.
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    const auto first =
        std::lower_bound(all_.begin(), all_.end(), begin,
                         [](const Extent& e, std::uint64_t at) { return e.end < at; });
    auto last = first;
    for (; last != all_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      all_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      all_.erase(first + 1, last);
    }
  }
  bool covers(std::uint64_t begin, std::uint64_t end) const {
    return std::any_of(all_.begin(), all_.end(), [&](const Extent& extent) {
      return extent.begin <= begin && end <= extent.end;
    });
  }
  // Removes those before `index`.
  void erase_before(std::size_t index) {
    all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void clear() { all_.clear(); }
  bool empty() const { return all_.empty(); }
  std::size_t size() const { return all_.size(); }
  const std::vector<Extent>& all() const { return all_; }

 private:
  static constexpr std::size_t few = 16;
  std::vector<Extent> all_;
};

}  // namespace ferry
