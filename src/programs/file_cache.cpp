#include "programs/file_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>

#include <ferry/ferry.hpp>

namespace ferry::bench {
namespace {

constexpr std::uint64_t window_bytes = std::uint64_t{1} << 30;  // of mincore
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;    // of warming reads

// Whether so few bytes can have come beside the data.
bool almost_none(std::uint64_t came_bytes, std::uint64_t bytes) {
  return came_bytes == 0 || came_bytes < bytes / 64;
}

struct Residency {
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  bool known = true;
};

void count_window(int fd, std::uint64_t offset, std::uint64_t bytes, Residency& sum) {
  void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (map == MAP_FAILED) {
    sum.known = false;
    return;
  }
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page_bytes - 1) / page_bytes);
  sum.known = sum.known && ::mincore(map, bytes, pages.data()) == 0;
  sum.pages += pages.size();
  for (const unsigned char page : pages)
    sum.resident += page & 1U;
  ::munmap(map, bytes);
}

}  // namespace

PlainFile::PlainFile(const std::string& path, int flags)
    : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw Error(errno, path);
}

std::uint64_t PlainFile::size_bytes() const {
  const off_t end = ::lseek(fd_, 0, SEEK_END);  // fstat knows no size of a block device
  if (end < 0) throw Error(errno, path_);
  return static_cast<std::uint64_t>(end);
}

bool PlainFile::keeps_bytes() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) throw Error(errno, path_);
  if (S_ISDIR(status.st_mode)) throw Error(EISDIR, path_);
  return S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
}

void PlainFile::read(void* data, std::uint64_t bytes, std::uint64_t offset) const {
  auto* to = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(errno, path_);
    if (got == 0) throw Error(EIO, path_ + " ends at " + std::to_string(offset) + " bytes");
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

void PlainFile::write(const void* data, std::uint64_t bytes, std::uint64_t offset) const {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(fd_, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw Error(errno, path_);
    from += put;
    offset += static_cast<std::uint64_t>(put);
    bytes -= static_cast<std::uint64_t>(put);
  }
}

CacheState cache_state(const PlainFile& file, std::uint64_t bytes) {
  Residency sum;
  for (std::uint64_t at = 0; at < bytes; at += window_bytes)
    count_window(file.fd(), at, std::min(window_bytes, bytes - at), sum);
  if (!sum.known) return CacheState::unverified;
  if (sum.resident == sum.pages) return CacheState::hot;
  return sum.resident == 0 ? CacheState::cold : CacheState::unverified;
}

CacheState make_cold(const PlainFile& file, std::uint64_t bytes) {
  ::fsync(file.fd());  // dirty pages cannot be dropped; the check shows any failure
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  const CacheState state = cache_state(file, bytes);
  return state == CacheState::cold ? state : CacheState::unverified;
}

CacheState make_hot(const PlainFile& file, std::uint64_t bytes) {
  if (cache_state(file, bytes) == CacheState::hot) return CacheState::hot;
  std::vector<unsigned char> buffer(std::min(bytes, step_bytes));
  for (std::uint64_t at = 0; at < bytes; at += step_bytes)
    file.read(buffer.data(), std::min(step_bytes, bytes - at), at);
  const CacheState state = cache_state(file, bytes);
  return state == CacheState::hot ? state : CacheState::unverified;
}

CacheState confirm(CacheState before, std::uint64_t bytes,
                   std::optional<std::uint64_t> storage_read_bytes) {
  if (!storage_read_bytes) return before;
  const bool denied = (before == CacheState::cold && *storage_read_bytes < bytes) ||
                      (before == CacheState::hot && !almost_none(*storage_read_bytes, bytes));
  return denied ? CacheState::unverified : before;
}

CacheState state_by_network(std::uint64_t bytes, std::optional<std::uint64_t> network_read_bytes) {
  if (!network_read_bytes) return CacheState::unverified;
  if (*network_read_bytes >= bytes) return CacheState::cold;
  return almost_none(*network_read_bytes, bytes) ? CacheState::hot : CacheState::unverified;
}

const char* name_of(CacheState state) {
  switch (state) {
    case CacheState::hot:
      return "hot";
    case CacheState::cold:
      return "cold";
    case CacheState::unverified:
      break;
  }
  return "unverified";
}

}  // namespace ferry::bench
