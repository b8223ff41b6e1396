// How much of a file is in the kernel's page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace ferry {

// Bytes of [offset, offset + bytes) of `fd` that a read would find in memory, rounded to pages.
// Exact with cachestat(2) (Linux 6.5), otherwise a sample of eight nonblocking one-byte reads.
// Nothing: the file system supports neither.
std::optional<std::uint64_t> resident_bytes(int fd, std::uint64_t offset, std::uint64_t bytes);

// Only the sample.
std::optional<std::uint64_t> sample_residency(int fd, std::uint64_t offset, std::uint64_t bytes);

}  // namespace ferry
