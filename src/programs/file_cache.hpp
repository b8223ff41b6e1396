// The kernel's page cache of one file: what is in it, emptying it, filling it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace ferry::bench {

// A descriptor of this process, opened by plain open(2); for everything outside the timed region.
class PlainFile {
 public:
  // Throws ferry::Error that names the path.
  explicit PlainFile(const std::string& path, int flags = O_RDONLY);
  ~PlainFile() { ::close(fd_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const;
  bool is_regular() const;
  // Throws ferry::Error, also when the file ends before.
  void read(void* data, std::uint64_t bytes, std::uint64_t offset) const;
  // Throws ferry::Error.
  void write(const void* data, std::uint64_t bytes, std::uint64_t offset) const;

 private:
  std::string path_;
  int fd_;
};

enum class CacheState : std::uint8_t {
  hot,         // every page of the range is in the page cache
  cold,        // none is
  unverified,  // some are, or the kernel does not tell
};

// The file's pages in [0, bytes), by mincore. The kernel tells only who owns the file or may write
// it; to others everything looks resident, so that "cold" is never claimed wrongly.
CacheState cache_state(const PlainFile& file, std::uint64_t bytes);

// Writes dirty pages back and asks the kernel to drop all pages; says what became of it.
CacheState make_cold(const PlainFile& file, std::uint64_t bytes);

// Reads the file once where it is not in the cache as a whole.
CacheState make_hot(const PlainFile& file, std::uint64_t bytes);

// What is left of that state once a repeat has read `bytes` through the page cache and the kernel
// has counted what the process made the storage read meanwhile (absent: it does not tell). A cold
// read brings at least its own bytes from the storage; a hot one brings none.
CacheState confirm(CacheState before, std::uint64_t bytes,
                   std::optional<std::uint64_t> storage_read_bytes);

// The state that a file of a URI must have been in on this machine when so many bytes of it were
// read: cold if at least as many came over the network meanwhile, hot if next to none did (a
// client's own messages are small). Absent: the kernel does not tell.
CacheState state_by_network(std::uint64_t bytes, std::optional<std::uint64_t> network_read_bytes);

const char* name_of(CacheState state);

}  // namespace ferry::bench
