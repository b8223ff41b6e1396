// Opens and closes files, makes them durable, truncates them, and gets their status, for a group's
// leader. Each keeps the page cache coherent: dirty data counts, and reaches storage first.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/file_position.hpp>
#include <ferry/device/placement_policy.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// Flags of open(2); kernels have no <fcntl.h>. O_DSYNC is part of O_SYNC.
struct OpenFlags {
  static constexpr int access_mask = 3;
  static constexpr int write_only = 1;
  static constexpr int read_write = 2;
  static constexpr int create = 0100;
  static constexpr int exclusive = 0200;
  static constexpr int truncate = 01000;
  static constexpr int append = 02000;
  static constexpr int synchronous = 010000;

  FERRY_DEVICE static bool may_write(int flags) {
    const int access = flags & access_mask;
    return access == write_only || access == read_write;
  }
};

// A request about an open file that transfers nothing. `size_bytes`: of a truncation.
FERRY_DEVICE_CALL inline int ask(Requester& requester, Opcode opcode, int file,
                                 std::int64_t size_bytes = 0) {
  Request request{};
  request.opcode = opcode;
  request.file = file;
  request.offset = size_bytes;
  return static_cast<int>(requester.call(request).result);
}

// Copies the path into the arena, visible to the server (which copies it again before use).
FERRY_DEVICE inline int stage_path(const Requester& requester, const char* path, Request& request) {
  if (path == nullptr) return -EFAULT;
  unsigned char* scratch = requester.arena().scratch(requester.group());
  std::uint64_t length = 0;
  while (path[length] != '\0') {
    if (length + 1 >= path_bytes_max) return -ENAMETOOLONG;
    scratch[length] = static_cast<unsigned char>(path[length]);
    ++length;
  }
  scratch[length] = 0;
  request.buffer = requester.arena().offset_of(scratch);
  request.length = length + 1;
  return 0;
}

// The answer to a status request, as the storage reports it.
FERRY_DEVICE_CALL inline int call_for_status(Requester& requester, Request& request,
                                             FileStatus& status) {
  // The answer overwrites a path that the server has copied by then.
  unsigned char* scratch = requester.arena().scratch(requester.group());
  request.buffer = requester.arena().offset_of(scratch);
  const auto error = static_cast<int>(requester.call(request).result);
  __builtin_memcpy(&status, scratch, sizeof status);
  return error;
}
FERRY_DEVICE inline int storage_status(Requester& requester, int file, FileStatus& status) {
  Request request{};
  request.opcode = Opcode::file_status;
  request.file = file;
  return call_for_status(requester, request, status);
}

// `cached(files, entry)` if the file is cached, else `otherwise()`. -EBADF if a close has removed
// the handle from the cache.
template <class Cached, class Otherwise>
FERRY_DEVICE_CALL auto where_cached(Requester& requester, int file, Cached cached,
                                    Otherwise otherwise) -> decltype(otherwise()) {
  if (requester.has_cache()) {
    cache::CachedFiles files(requester);
    if (cache::OpenFile* entry = files.find(file); entry != nullptr) return cached(files, *entry);
    if (files.has_left(file)) return -EBADF;
  }
  return otherwise();
}
// For an uncached file it only checks the handle.
template <class Cached>
FERRY_DEVICE int if_cached(Requester& requester, int file, Cached cached) {
  return where_cached(requester, file, cached, [&] {
    FileStatus status{};
    return storage_status(requester, file, status);
  });
}

// `work(files, entry)` if the file is cached, then the request; returns the first error.
template <class Work>
FERRY_DEVICE int work_then_ask(Requester& requester, Opcode opcode, int file, Work work) {
  int error = 0;
  const auto cached = [&](cache::CachedFiles& files, cache::OpenFile& entry) {
    error = work(files, entry);
    return 0;
  };
  const int refused = where_cached(requester, file, cached, [] { return 0; });
  if (refused != 0) return refused;
  const int result = ask(requester, opcode, file);
  return error != 0 ? error : result;
}

// What followed a group's writes to the file. Notes nothing without a cache.
FERRY_DEVICE inline void note_flush(const Requester& requester, int file) {
  if (requester.has_cache()) FlushHabit(requester.cache().reader(requester.group())).flushed(file);
}

FERRY_DEVICE_CALL inline int close_file(Requester& requester, int file) {
  if (requester.has_cache()) FlushHabit(requester.cache().reader(requester.group())).closed(file);
  return work_then_ask(
      requester, Opcode::close, file, [&](cache::CachedFiles& files, cache::OpenFile& entry) {
        return files.detach(entry, file,
                            [&](FileStatus& now) { return storage_status(requester, file, now); });
      });
}
// Writes back, then makes the storage sync. If both fail, this reports the storage's error, which
// it reports once, and the handle's next report is the other one.
FERRY_DEVICE_CALL inline int sync_file(Requester& requester, Opcode opcode, int file) {
  note_flush(requester, file);
  int written = 0;
  const int error = work_then_ask(requester, opcode, file, [&](auto& files, auto& entry) {
    written = files.flush(entry, true);
    return 0;
  });
  if (error == 0 || written == 0) return error != 0 ? error : written;
  cache::CachedFiles files(requester);
  if (cache::OpenFile* entry = files.find(file); entry != nullptr) files.report_again(*entry);
  return error;
}
FERRY_DEVICE_CALL inline int truncate_file(Requester& requester, int file,
                                           std::int64_t size_bytes) {
  const auto truncate = [&] { return ask(requester, Opcode::truncate, file, size_bytes); };
  return where_cached(
      requester, file,
      [&](cache::CachedFiles& files, cache::OpenFile& entry) {
        return files.truncate(entry, static_cast<std::uint64_t>(size_bytes), truncate);
      },
      truncate);
}

// Whether an open with these flags leaves the truncation to attach_file(), which orders it with the
// cache's dirty data and write-backs in flight.
FERRY_DEVICE inline bool truncates_once_open(const Requester& requester, int flags) {
  return requester.has_cache() && (flags & OpenFlags::truncate) != 0 && OpenFlags::may_write(flags);
}
// Enters a newly opened file into the cache; files that do not fit are served past it. Returns 0,
// or an error: then the cache's data of the file would be wrong.
FERRY_DEVICE_CALL inline int attach_file(Requester& requester, int file, int flags) {
  FileStatus status{};
  if (const int error = storage_status(requester, file, status); error != 0) return error;
  std::uint32_t access = 0;
  if ((flags & OpenFlags::access_mask) != OpenFlags::write_only)
    access |= cache::OpenFile::readable;
  if (OpenFlags::may_write(flags)) access |= cache::OpenFile::writable;
  if ((flags & OpenFlags::append) != 0) access |= cache::OpenFile::appends;
  if ((flags & OpenFlags::synchronous) != 0) access |= cache::OpenFile::synchronous;
  // O_TRUNC leaves devices alone, and others may have written to a file since this open created it.
  constexpr int must_create = OpenFlags::create | OpenFlags::exclusive;
  const bool truncates = truncates_once_open(requester, flags) && is_regular(status) &&
                         (flags & must_create) != must_create;
  cache::CachedFiles files(requester);
  const cache::OpenFile* entry = files.attach(file, access, status) ? files.find(file) : nullptr;
  if (entry == nullptr) return truncates ? ask(requester, Opcode::truncate, file) : 0;
  // O_RDONLY | O_TRUNC, undefined in POSIX, has truncated the file when it was opened. Another
  // handle's earlier data that is not in storage yet must not extend it again.
  int writer = truncates ? file : 0;
  if ((flags & OpenFlags::truncate) != 0 && !OpenFlags::may_write(flags))
    writer = files.writer(*entry);
  if (writer != 0)
    return files.truncate(*entry, 0, [&] { return ask(requester, Opcode::truncate, writer); });
  return files.revalidate(*entry, status,
                          [&](FileStatus& now) { return storage_status(requester, file, now); });
}
FERRY_DEVICE_CALL inline int open_file(Requester& requester, const char* path, int flags,
                                       std::uint32_t mode) {
  Request request{};
  request.opcode = Opcode::open;
  if (const int error = stage_path(requester, path, request); error != 0) return error;
  request.argument = truncates_once_open(requester, flags) ? flags & ~OpenFlags::truncate : flags;
  request.mode = mode;
  const auto file = static_cast<int>(requester.call(request).result);
  if (file < 0) return file;
  FilePosition& position = position_of(requester.arena(), file);
  // A read() with the slot's previous handle may still hold the lock.
  PositionLock::lock(position, requester.context().hooks);
  position.position = 0;
  // As words that appends() may read without the lock.
  DeviceRef<std::uint32_t>(position.append)
      .store((flags & OpenFlags::append) != 0 ? 1 : 0, relaxed);
  position.handle = file;
  PositionLock::unlock(position, requester.context().hooks);
  if (!requester.has_cache()) return file;
  const int error = attach_file(requester, file, flags);
  if (error != 0) close_file(requester, file);
  return error != 0 ? error : file;
}

// The cache knows the file's size, up to the cacheable part; for longer files the storage does.
FERRY_DEVICE_CALL inline void correct_size(Requester& requester, FileStatus& status) {
  if (!requester.has_cache()) return;
  cache::CachedFiles files(requester);
  std::uint32_t inode = 0;
  if (!files.inode_of_file(status, inode)) return;
  const std::uint64_t size = files.pages().size(inode);
  if (size < requester.cache().bytes_max() || status.size_bytes < size) status.size_bytes = size;
}

}  // namespace ferry::device
