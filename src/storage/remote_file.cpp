#include "storage/remote_file.hpp"

#include <cerrno>
#include <fstream>
#include <limits>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

namespace ferry::storage {

namespace {

bool is_transfer(Kind kind) {
  return kind == Kind::read || kind == Kind::write || kind == Kind::append;
}

bool waits_for_changes(Kind kind) {
  return kind == Kind::write || kind == Kind::append || kind == Kind::truncate ||
         kind == Kind::sync || kind == Kind::sync_data;
}

}  // namespace

int RemoteFile::refusal(const Operation& operation) const {
  if (is_transfer(operation.kind)) {
    if (const int error = refusal_of_transfer(operation); error != 0) return error;
  }
  return changes != nullptr && waits_for_changes(operation.kind) ? changes->error() : 0;
}

int RemoteFile::refusal_of_transfer(const Operation& operation) const {
  if (operation.kind == Kind::read ? !readable : !writable) return -EBADF;
  if (directory) return -EISDIR;
  std::uint64_t bytes = 0;
  for (const iovec& vector : operation.vectors)
    bytes += vector.iov_len;
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  const bool fits =
      operation.offset >= 0 && bytes <= static_cast<std::uint64_t>(largest - operation.offset);
  return fits ? 0 : -EINVAL;
}

void RemoteFile::opened_with(int flags) {
  readable = (flags & O_ACCMODE) != O_WRONLY;
  writable = (flags & O_ACCMODE) != O_RDONLY;
  append = (flags & O_APPEND) != 0;
  synchronous = (flags & (O_SYNC | O_DSYNC)) != 0;
}

int refusal_of_type(std::uint32_t mode) {
  if (S_ISREG(mode) || S_ISDIR(mode)) return 0;
  if (S_ISLNK(mode)) return -ELOOP;
  return S_ISFIFO(mode) ? -ESPIPE : -ENXIO;
}

std::uint32_t umask_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    unsigned mask = 0;
    if (word == "Umask:" && status >> std::oct >> mask) return mask;
  }
  return 022;
}

}  // namespace ferry::storage
