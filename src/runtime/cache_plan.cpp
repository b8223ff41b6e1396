#include "runtime/cache_plan.hpp"

#include <cerrno>
#include <string>

namespace ferry {

device::cache::CacheLayout cache_layout(const RuntimeOptions& options,
                                        const device::Geometry& geometry) {
  const std::uint32_t page = options.page_bytes;
  if (page < device::cache::page_bytes_min || page > device::cache::page_bytes_max ||
      (page & (page - 1)) != 0) {
    throw Error(EINVAL, "page_bytes: a power of two from 4096 to 2097152");
  }
  const std::uint64_t frames = options.cache_bytes / page;
  if (frames == 0 || frames > device::cache::frames_max) {
    throw Error(EINVAL, "cache_bytes: from one page to " +
                            std::to_string(device::cache::frames_max) + " pages");
  }
  const std::uint64_t groups = std::uint64_t{geometry.groups} + options.reader_groups;
  if (groups > device::cache::groups_max) {
    throw Error(EINVAL, "a page cache serves at most " + std::to_string(device::cache::groups_max) +
                            " groups of a device, and this one has " + std::to_string(groups));
  }
  const auto count = static_cast<std::uint32_t>(frames);
  return device::cache::lay_out({page, count, geometry.files, static_cast<std::uint32_t>(groups),
                                 device::cache::flights_for(count)});
}

// Twice as many counters as pages: enough to recognise pages that should have been cached.
std::uint32_t bypass_entries(std::uint32_t frames) {
  std::uint32_t entries = 1;
  while (entries < 2 * frames)
    entries *= 2;
  return entries;
}

void size_arena(const RuntimeOptions& options, device::Geometry& geometry) {
  if (options.cache_bytes > 0)
    geometry.shared_cells = cache_layout(options, geometry).geometry.flights;
  const std::uint64_t before = device::lay_out(geometry).heap;
  geometry.arena_bytes = before + options.arena_bytes;
  if (geometry.arena_bytes < before) throw Error(ENOMEM, "arena_bytes: too large");
  if (options.cache_bytes > 0) {
    const device::cache::CacheLayout layout = cache_layout(options, geometry);
    const std::uint64_t cache = layout.bytes + device::cache::alignment_bytes(layout.geometry) +
                                bypass_entries(layout.geometry.frames) * sizeof(std::uint32_t) +
                                device::cache_line_bytes;
    if (geometry.arena_bytes + cache < cache) throw Error(ENOMEM, "cache_bytes: too large");
    geometry.arena_bytes += cache;
  }
}

}  // namespace ferry
