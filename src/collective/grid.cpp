#include "collective/grid.hpp"

namespace ferry::collective {

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

}  // namespace ferry::collective
