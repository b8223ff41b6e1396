// The size of a runtime's page cache, and its place in memory.
#pragma once

#include <cstdint>

#include <ferry/runtime.hpp>

namespace ferry {

inline constexpr std::uint64_t cache_alignment_bytes = 4096;

// Of a cache as the options want it, for so many groups and open files. Throws ferry::Error
// (EINVAL) for sizes that cannot be.
device::cache::Layout cache_layout(const RuntimeOptions& options, const device::Geometry& geometry);

// Of the counters of reads past a cache of so many pages.
std::uint32_t bypass_entries(std::uint32_t frames);

// Fills in what follows from the rest of the geometry and from the options: the cells that belong
// to the cache, and the size of the arena. Throws ferry::Error (EINVAL; ENOMEM: larger than any
// memory).
void size_arena(const RuntimeOptions& options, device::Geometry& geometry);

}  // namespace ferry
