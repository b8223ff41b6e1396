// The size of a runtime's page cache, and its place in memory.
#pragma once

#include <cstdint>

#include <ferry/runtime.hpp>

namespace ferry {

// For the cache that the options ask for, with this many groups and open files. Throws ferry::Error
// (EINVAL) for invalid sizes.
device::cache::CacheLayout cache_layout(const RuntimeOptions& options,
                                        const device::Geometry& geometry);

// For the counters of reads past a cache of this many pages.
std::uint32_t bypass_entries(std::uint32_t frames);

// Fills in what follows from the rest of the geometry and the options: the cache's cells and the
// arena's size. Throws ferry::Error (EINVAL; ENOMEM: larger than any memory).
void size_arena(const RuntimeOptions& options, device::Geometry& geometry);

}  // namespace ferry
