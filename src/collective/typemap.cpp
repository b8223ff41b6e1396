#include <algorithm>
#include <cerrno>
#include <string>

#include <ferry/error.hpp>
#include <ferry/typemap.hpp>

#include "collective/extents.hpp"

namespace ferry::collective {
namespace {

void require(bool right, const char* what) {
  if (!right) throw Error(EINVAL, std::string("type map: ") + what);
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require(!__builtin_mul_overflow(a, b, &result), "larger than 2^63 bytes");
  return result;
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require(!__builtin_add_overflow(a, b, &result), "larger than 2^63 bytes");
  return result;
}

}  // namespace

std::vector<Extent> grid(const std::vector<Dimension>& dimensions, std::int64_t element_bytes) {
  std::vector<Extent> inner{{0, element_bytes}};
  std::int64_t stride = element_bytes;
  for (std::size_t left = dimensions.size(); left > 0; --left) {
    const Dimension& dimension = dimensions[left - 1];
    std::vector<Extent> outer;
    // Elements without gaps become one extent per range, not one each.
    const bool whole = inner.size() == 1 && inner.front() == Extent{0, stride};
    for (const auto& [first, count] : dimension.ranges) {
      if (count == 0) continue;
      if (whole) {
        append(outer, {first * stride, count * stride});
        continue;
      }
      for (std::int64_t i = first; i < first + count; ++i)
        for (const Extent& extent : inner)
          append(outer, {i * stride + extent.offset, extent.bytes});
    }
    inner = std::move(outer);
    stride *= dimension.size;
  }
  return inner;
}

TypeMap::TypeMap(std::vector<Extent> extents, std::int64_t period_bytes)
    : extents_(std::move(extents)), period_bytes_(period_bytes) {
  before_.reserve(extents_.size() + 1);
  std::int64_t bytes = 0;
  before_.push_back(0);
  for (const Extent& extent : extents_) {
    bytes = sum(bytes, extent.bytes);
    before_.push_back(bytes);
  }
}

TypeMap TypeMap::contiguous(std::int64_t bytes) {
  const Extent all{0, bytes};
  return list(std::span(&all, 1));
}

TypeMap TypeMap::strided(std::int64_t count, std::int64_t block_bytes, std::int64_t stride_bytes) {
  require(count >= 0 && block_bytes >= 0, "a negative count or block");
  require(stride_bytes >= 0, "a negative stride; use list()");
  const std::int64_t period = product(count, stride_bytes);
  if (stride_bytes == block_bytes) return contiguous(period);
  std::vector<Extent> extents;
  const auto number = static_cast<std::size_t>(count);
  require(number <= extents.max_size(), "more blocks than memory can list");
  extents.reserve(number);
  for (std::int64_t i = 0; i < count; ++i)
    extents.push_back({i * stride_bytes, block_bytes});
  return list(extents, period);
}

TypeMap TypeMap::subarray(std::span<const std::int64_t> sizes,
                          std::span<const std::int64_t> subsizes,
                          std::span<const std::int64_t> starts, std::int64_t element_bytes) {
  require(!sizes.empty() && sizes.size() == subsizes.size() && sizes.size() == starts.size(),
          "a sub-array needs as many subsizes and starts as sizes, and at least one");
  require(element_bytes > 0, "elements without bytes");
  std::vector<Dimension> dimensions;
  std::int64_t period = element_bytes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(sizes[i] > 0 && subsizes[i] >= 0 && starts[i] >= 0 && starts[i] <= sizes[i] &&
                subsizes[i] <= sizes[i] - starts[i],
            "a sub-array that leaves its array");
    period = product(period, sizes[i]);
    dimensions.push_back({sizes[i], {{starts[i], subsizes[i]}}});
  }
  return list(grid(dimensions, element_bytes), period);
}

TypeMap TypeMap::list(std::span<const Extent> extents, std::int64_t period_bytes) {
  std::vector<Extent> joined;
  std::int64_t end = 0;
  std::int64_t all = 0;
  for (const Extent& extent : extents) {
    require(extent.bytes >= 0, "an extent of negative size");
    if (extent.bytes == 0) continue;
    all = sum(all, extent.bytes);  // before neighbours are joined
    end = std::max(end, sum(extent.offset, extent.bytes));
    append(joined, extent);
  }
  return {std::move(joined), period_bytes < 0 ? end : period_bytes};
}

bool TypeMap::ascends() const {
  std::int64_t end = 0;
  for (const Extent& extent : extents_) {
    if (extent.offset < end) return false;
    end = extent.offset + extent.bytes;
  }
  return true;
}

bool TypeMap::is_file_view() const {
  if (extents_.empty()) return true;
  const std::int64_t end = extents_.back().offset + extents_.back().bytes;
  return ascends() && end - extents_.front().offset <= period_bytes_;
}

std::size_t TypeMap::extent_of(std::int64_t stream) const {
  const auto after = std::upper_bound(before_.begin(), before_.end() - 1, stream);
  return static_cast<std::size_t>(after - before_.begin()) - 1;
}

std::int64_t TypeMap::position_of(std::int64_t stream) const {
  const std::int64_t period = stream / data_bytes();
  const std::int64_t rest = stream - period * data_bytes();
  const std::size_t at = extent_of(rest);
  return period * period_bytes_ + extents_[at].offset + rest - before_[at];
}

std::int64_t TypeMap::stream_at(std::int64_t position) const {
  if (extents_.empty() || position <= extents_.front().offset) return 0;
  // Periods are counted from the first extent, so that each holds exactly one copy of the list.
  const std::int64_t behind = position - extents_.front().offset;
  const std::int64_t period = behind / period_bytes_;
  const std::int64_t inside = behind - period * period_bytes_ + extents_.front().offset;
  const auto after = std::upper_bound(
      extents_.begin(), extents_.end(), inside,
      [](std::int64_t value, const Extent& extent) { return value < extent.offset; });
  const auto at = static_cast<std::size_t>(after - extents_.begin()) - 1;
  return period * data_bytes() + before_[at] +
         std::min(inside - extents_[at].offset, extents_[at].bytes);
}

}  // namespace ferry::collective
