// Chooses the writers, and the domain of the file that each one writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <ferry/typemap.hpp>

namespace ferry::collective {

// Writing ranks, spread over the nodes: one per node in turn, and evenly over a node's ranks.
// node_of[r] is any number shared by the ranks of a node. Rank 0 is always the first.
std::vector<int> choose_writers(std::span<const int> node_of, int count);

// The part [begin, end) of a file, cut into one domain per writer, and these into windows: a
// writer's buffer in one round. Inner borders of domains and windows are multiples of the
// alignment; if that exceeds the buffer, windows are equal parts of it, halved as far as possible.
class Domains {
 public:
  Domains(std::int64_t begin, std::int64_t end, int writers, std::int64_t buffer_bytes,
          std::int64_t alignment_bytes)
      : begin_(begin / alignment_bytes * alignment_bytes), end_(end) {
    const auto up = [&](std::int64_t bytes) {
      return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    };
    domain_bytes_ = std::max(alignment_bytes, up((end - begin_ + writers - 1) / writers));
    window_bytes_max_ = up(buffer_bytes);
    while (window_bytes_max_ > buffer_bytes && alignment_bytes > buffer_bytes &&
           window_bytes_max_ % 2 == 0)
      window_bytes_max_ /= 2;
    window_bytes_ = std::min(domain_bytes_, window_bytes_max_);
    rounds_ = static_cast<int>((domain_bytes_ + window_bytes_ - 1) / window_bytes_);
  }

  std::int64_t window_bytes() const { return window_bytes_; }
  // For any range of the file with these settings.
  std::int64_t window_bytes_max() const { return window_bytes_max_; }
  int rounds() const { return rounds_; }
  // May be empty.
  Extent window(int writer, int round) const {
    const std::int64_t domain = begin_ + writer * domain_bytes_;
    const std::int64_t from = std::min(end_, domain + round * window_bytes_);
    const std::int64_t to = std::min({end_, domain + domain_bytes_, from + window_bytes_});
    return {from, to - from};
  }
  // The domain and window of `position`.
  int writer_of(std::int64_t position) const {
    return static_cast<int>((position - begin_) / domain_bytes_);
  }
  int round_of(std::int64_t position) const {
    return static_cast<int>((position - begin_) % domain_bytes_ / window_bytes_);
  }

 private:
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t domain_bytes_ = 0;
  std::int64_t window_bytes_ = 0;
  std::int64_t window_bytes_max_ = 0;
  int rounds_ = 0;
};

}  // namespace ferry::collective
