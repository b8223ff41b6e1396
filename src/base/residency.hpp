// How much of a file the kernel's page cache holds.
#pragma once

#include <cstdint>
#include <optional>

namespace ferry {

// Bytes of [offset, offset + bytes) of the file behind `fd` that a read would find in memory,
// rounded to pages. cachestat(2) tells exactly (Linux 6.5); where it does not, eight one-byte reads
// that must not wait are a sample. Nothing: the file system cannot tell either way.
std::optional<std::uint64_t> resident_bytes(int fd, std::uint64_t offset, std::uint64_t bytes);

// The sample on its own.
std::optional<std::uint64_t> sample_residency(int fd, std::uint64_t offset, std::uint64_t bytes);

}  // namespace ferry
