// One file's pages in the kernel's page cache: queries, drops and loads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace ferry::bench {

// Its own descriptor, from plain open(2); for everything outside timed regions.
class PlainFile {
 public:
  // Throws ferry::Error with the path.
  explicit PlainFile(const std::string& path, int flags = O_RDONLY);
  ~PlainFile() { ::close(fd_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const;
  // Whether it is a regular file or a block device.
  bool keeps_bytes() const;
  // Throws ferry::Error, also if the file is shorter.
  void read(void* data, std::uint64_t bytes, std::uint64_t offset) const;
  // Throws ferry::Error.
  void write(const void* data, std::uint64_t bytes, std::uint64_t offset) const;

 private:
  std::string path_;
  int fd_;
};

enum class CacheState : std::uint8_t {
  hot,         // every page of the range is cached
  cold,        // none is
  unverified,  // some are, or unknown
};

// The file's pages in [0, bytes), by mincore. The kernel reveals residency only to a file's owner
// or writers; to others everything looks cached, so "cold" is never claimed wrongly.
CacheState cache_state(const PlainFile& file, std::uint64_t bytes);

// Writes back dirty pages and asks the kernel to drop all; returns the resulting state.
CacheState make_cold(const PlainFile& file, std::uint64_t bytes);

// Reads the file once unless all of it is cached.
CacheState make_hot(const PlainFile& file, std::uint64_t bytes);

// The state to report after a repeat that read `bytes` through the page cache, given the bytes that
// the kernel counted from the storage (absent: unknown). A cold read brings at least its own bytes
// from storage; a hot one almost none (a page of a library, or a block of the file system's own, is
// counted too).
CacheState confirm(CacheState before, std::uint64_t bytes,
                   std::optional<std::uint64_t> storage_read_bytes);

// The state of a URI's file on this machine, given the bytes received from the network while it was
// read: cold if at least as many, hot if almost none (a client's own messages are small). Absent:
// unknown.
CacheState state_by_network(std::uint64_t bytes, std::optional<std::uint64_t> network_read_bytes);

const char* name_of(CacheState state);

}  // namespace ferry::bench
