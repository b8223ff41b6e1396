#include "base/residency.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ferry {
namespace {

// Missing in Debian 12's headers; the number is the same on every architecture.
constexpr long sys_cachestat = 451;
struct CacheRange {
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct CacheStatistics {
  std::uint64_t cached_pages;
  std::uint64_t dirty_pages;
  std::uint64_t written_back_pages;
  std::uint64_t evicted_pages;
  std::uint64_t recently_evicted_pages;
};

constexpr std::uint64_t pages_asked = 8;

}  // namespace

std::optional<std::uint64_t> sample_residency(int fd, std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < pages_asked; ++i) {
    char byte = 0;
    iovec vector{&byte, 1};
    const std::uint64_t at = offset + (bytes - 1) / (pages_asked - 1) * i;
    const auto got = preadv2(fd, &vector, 1, static_cast<off_t>(at), RWF_NOWAIT);
    if (got < 0 && errno != EAGAIN) return std::nullopt;
    if (got >= 0) ++found;
  }
  return bytes / pages_asked * found + (found == pages_asked ? bytes % pages_asked : 0);
}

std::optional<std::uint64_t> resident_bytes(int fd, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  const CacheRange range{offset, bytes};
  CacheStatistics statistics{};
  // Refused for files that the caller neither owns nor may write.
  if (syscall(sys_cachestat, fd, &range, &statistics, 0) != 0) {
    return sample_residency(fd, offset, bytes);
  }
  static const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(statistics.cached_pages * page_bytes, bytes);
}

}  // namespace ferry
