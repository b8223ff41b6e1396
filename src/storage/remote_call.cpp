#include "storage/remote_call.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/sanitizer.hpp"
#include "storage/library.hpp"

namespace ferry::storage {
namespace {

bool is_transfer(Kind kind) {
  return kind == Kind::read || kind == Kind::write || kind == Kind::append;
}

bool waits_for_changes(Kind kind) {
  return kind == Kind::write || kind == Kind::append || kind == Kind::truncate ||
         kind == Kind::sync || kind == Kind::sync_data;
}

const char* text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

}  // namespace

void make_room(std::vector<char>& memory, std::int64_t bytes) {
  const auto wanted = static_cast<std::size_t>(bytes);
  if (memory.size() < wanted) memory.resize(wanted);
}

int RemoteFile::refusal(const Operation& operation) const {
  if (is_transfer(operation.kind)) {
    if (const int error = refusal_of_transfer(operation); error != 0) return error;
  }
  return waits_for_changes(operation.kind) ? late_change() : 0;
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

RemoteCall::RemoteCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout)
    : BoundedCall(operation, inbox, timeout),
      kind_(operation.kind),
      path_(text_or_empty(operation.path)),
      new_path_(text_or_empty(operation.new_path)),
      text_(operation.text == nullptr ? "" : *operation.text),
      flags_(operation.flags),
      mode_(operation.mode),
      offset_(operation.offset),
      layout_(operation.layout == nullptr ? Layout{} : *operation.layout),
      attributes_(operation.attributes == nullptr ? NewAttributes{} : *operation.attributes),
      has_layout_(operation.layout != nullptr) {
  for (const iovec& vector : operation.vectors)
    bytes_ += static_cast<std::int64_t>(vector.iov_len);
  const auto* file = static_cast<RemoteFile*>(operation.file);
  if (file == nullptr) return;
  appends_ = file->append;
  writable_ = file->writable;
  directory_ = file->directory;
  synchronous_ = file->synchronous;
  changes_ = file->changes;
  appending_ = file->appending;
}

std::int64_t RemoteCall::work(std::vector<char>& memory) {
  std::int64_t result = 0;
  try {
    result = execute(memory);
  } catch (const Unavailable& reason) {
    result = -reason.error_number();
  } catch (const std::invalid_argument&) {
    result = -EINVAL;
  } catch (const std::bad_alloc&) {
    result = -ENOMEM;
  }
  let_go();
  return result;
}

bool RemoteCall::copy(char* memory, std::int64_t done, std::int64_t bytes, bool out) {
  return touch([&](Operation& operation) {
    // A page of a device's cache may change during its write-back; the change is written later.
    const UnseenReads unseen;
    auto skip = static_cast<std::size_t>(done);
    auto left = static_cast<std::size_t>(bytes);
    for (const iovec& vector : operation.vectors) {
      if (skip >= vector.iov_len) {
        skip -= vector.iov_len;
        continue;
      }
      const std::size_t here = std::min(left, vector.iov_len - skip);
      char* theirs = static_cast<char*>(vector.iov_base) + skip;
      std::memcpy(out ? theirs : memory, out ? memory : theirs, here);
      memory += here;
      left -= here;
      skip = 0;
      if (left == 0) return;
    }
  });
}

std::int64_t RemoteCall::read(std::vector<char>& memory) {
  std::int64_t done = 0;
  while (done < bytes_) {
    const std::int64_t wanted = std::min(bytes_ - done, piece_bytes);
    make_room(memory, wanted);
    const std::int64_t got = read_piece(memory, wanted, offset_ + done);
    if (got < 0) return done > 0 ? done : got;
    if (got == 0) break;
    if (!copy(memory.data(), done, got, true)) break;
    done += got;
  }
  return done;
}

std::int64_t RemoteCall::write(std::vector<char>& memory, std::int64_t offset) {
  const std::int64_t piece_max = write_piece_max();
  std::int64_t done = 0;
  while (done < bytes_) {
    const std::int64_t wanted = std::min(bytes_ - done, piece_max);
    make_room(memory, wanted);
    if (!copy(memory.data(), done, wanted, false)) break;
    const std::int64_t written = write_piece(memory.data(), wanted, offset + done);
    if (written < 0) return done > 0 ? done : written;
    done += written;
    if (written < wanted) break;
  }
  return done;
}

std::int64_t RemoteCall::append(std::vector<char>& memory) {
  const std::lock_guard turn(*appending_);
  if (const int over = may_begin(); over != 0) return over;
  const std::int64_t end = size_now();
  if (end < 0) return end;
  const std::int64_t written = write(memory, end);
  touch([&](Operation& operation) {
    operation.value = static_cast<std::uint64_t>(end + std::max<std::int64_t>(written, 0));
  });
  return written;
}

Capabilities remote_capabilities(std::chrono::milliseconds timeout) {
  Capabilities capabilities;
  capabilities.atomic_append = false;
  capabilities.special_files = false;
  capabilities.page_cache_of_host = false;
  capabilities.tells_holes = false;
  capabilities.layouts = true;
  capabilities.request_timeout = timeout;
  return capabilities;
}

}  // namespace ferry::storage
