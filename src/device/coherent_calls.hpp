// What stands between a group's file calls and its request ring: the page cache's part in them.
//
// With placement `compute` a transfer is the cache's alone. With placement `host` the server does
// it, and this keeps the cache right: what is dirty is written back before the server reads, and
// cached pages follow what the server writes. While something dirty cannot be written back the
// cache serves these calls, too: the storage does not have what the host would read, and would get
// what is older after what it writes. Files that are not cached, and runtimes without a cache, pass
// straight through.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/group.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// One piece of a vectored call.
struct IoVector {
  void* base = nullptr;
  std::uint64_t bytes = 0;
};

// Linux transfers at most this much in one call; so does Ferry.
inline constexpr std::uint64_t transfer_bytes_max = 0x7ffff000;

// The base of FileCalls. Functions say `leader` where only the group's leader may call them; every
// lane calls the others.
template <class Group>
class CoherentCalls {
 public:
  FERRY_DEVICE CoherentCalls(const Context& context, Group group, std::uint32_t group_index)
      : group_(group), requester_(context, group_index), placement_(context.placement) {}

 protected:
  static constexpr int open_flag_append = 02000;  // O_APPEND; no <fcntl.h> in a kernel

  // Runs `work` on the leader and gives every lane its result.
  template <class Work>
  FERRY_DEVICE auto leads(Work work) {
    using Result = decltype(work());
    Result result{};
    group_.sync();
    if (group_.lane() == 0) result = work();
    return group_.broadcast(result);
  }

  FERRY_DEVICE static std::uint64_t clamp(std::uint64_t bytes) {
    return bytes < transfer_bytes_max ? bytes : transfer_bytes_max;
  }

  FERRY_DEVICE bool has_cache() const { return requester_.context().cache.base != nullptr; }

  FERRY_DEVICE int ask_status(int file, Request& request) const {
    request.opcode = Opcode::file_status;
    request.file = file;
    request.buffer = requester_.arena().offset_of(requester_.arena().scratch(requester_.group()));
    return 0;
  }
  // Into the scratch area, by the leader.
  FERRY_DEVICE_CALL int status_of(int file, FileStatus& status) {
    Request request{};
    ask_status(file, request);
    const auto error = static_cast<int>(requester_.call(request).result);
    __builtin_memcpy(&status, requester_.arena().scratch(requester_.group()), sizeof status);
    return error;
  }
  FERRY_DEVICE_CALL int truncate_in_storage(int file, std::int64_t size_bytes) {
    Request request{};
    request.opcode = Opcode::truncate;
    request.file = file;
    request.offset = size_bytes;
    return static_cast<int>(requester_.call(request).result);
  }
  FERRY_DEVICE_CALL int correct_size(unsigned char* status_bytes) {
    FileStatus status;
    __builtin_memcpy(&status, status_bytes, sizeof status);
    cache::CachedFiles files(requester_);
    std::uint32_t inode = 0;
    if (!files.inode_of_file(status, inode)) return 0;
    status.size_bytes = files.pages().size(inode);
    __builtin_memcpy(status_bytes, &status, sizeof status);
    return 0;
  }

  // Leader. Without a cached file there is nothing to do but to tell whether the handle is one.
  FERRY_DEVICE_CALL int flush_file(int file) {
    if (has_cache()) {
      cache::CachedFiles files(requester_);
      if (cache::OpenFile* entry = files.find(file); entry != nullptr) return files.flush(*entry);
    }
    FileStatus status{};
    return status_of(file, status);
  }
  // Leader.
  FERRY_DEVICE_CALL int truncate_file(int file, std::int64_t size_bytes) {
    if (has_cache()) {
      cache::CachedFiles files(requester_);
      if (const cache::OpenFile* entry = files.find(file); entry != nullptr) {
        return files.truncate(*entry, static_cast<std::uint64_t>(size_bytes),
                              [&] { return truncate_in_storage(file, size_bytes); });
      }
    }
    return truncate_in_storage(file, size_bytes);
  }

  // Leader. Tells the cache of a file that was opened just now. One that it cannot take is served
  // past it.
  FERRY_DEVICE_CALL void attach(int file, int flags) {
    constexpr int access_mask = 3;
    constexpr int write_only = 1;
    constexpr int read_write = 2;
    constexpr int truncates = 01000;
    FileStatus status{};
    if (status_of(file, status) != 0) return;
    std::uint32_t access = 0;
    if ((flags & access_mask) != write_only) access |= cache::OpenFile::readable;
    if ((flags & access_mask) == write_only || (flags & access_mask) == read_write)
      access |= cache::OpenFile::writable;
    if ((flags & open_flag_append) != 0) access |= cache::OpenFile::appends;
    cache::CachedFiles files(requester_);
    if (!files.attach(file, access, status)) return;
    if ((flags & truncates) == 0) return;
    // Pages of other openings must go, and what they write back meanwhile.
    if (const cache::OpenFile* entry = files.find(file); entry != nullptr)
      files.truncate(*entry, 0, [&] { return truncate_in_storage(file, 0); });
  }

  FERRY_DEVICE bool is_cached(int file) {
    if (!has_cache()) return false;
    return leads([&] { return cache::CachedFiles(requester_).find(file) != nullptr; });
  }

  // `work(files, entry)` where the file is cached, then the request; the first error of the two.
  template <class Work>
  FERRY_DEVICE int after_writing_back(Opcode opcode, int file, Work work) {
    return leads([&] {
      int error = 0;
      if (has_cache()) {
        cache::CachedFiles files(requester_);
        if (cache::OpenFile* entry = files.find(file); entry != nullptr)
          error = work(files, *entry);
      }
      Request request{};
      request.opcode = opcode;
      request.file = file;
      const auto result = static_cast<int>(requester_.call(request).result);
      return error != 0 ? error : result;
    });
  }

  // Which part the cache has in a transfer.
  enum class Way : std::uint8_t {
    past,      // none
    cached,    // all
    watching,  // what is dirty is written back before the host reads
    changing,  // the host writes, and cached pages follow
  };
  FERRY_DEVICE_CALL Way way_of(bool reading, int file, std::uint8_t flags) {
    const cache::OpenFile* entry = cache::CachedFiles(requester_).find(file);
    if (entry == nullptr) return Way::past;
    if (placement_ != Placement::host && (reading || !appends(*entry, flags))) return Way::cached;
    return reading ? Way::watching : Way::changing;
  }

  FERRY_DEVICE static bool appends(const cache::OpenFile& entry, std::uint8_t flags) {
    return (flags & flag_append) != 0 || (entry.access & cache::OpenFile::appends) != 0;
  }

  // Executes the transfer where it belongs; `host()` has the server do it.
  template <class Host>
  FERRY_DEVICE Answer coherently(bool reading, int file, const IoVector* pieces, int count,
                                 std::int64_t offset, std::uint8_t flags, Host host) {
    if (!has_cache()) return host();
    switch (leads([&] { return way_of(reading, file, flags); })) {
      case Way::past:
        break;
      case Way::cached:
        return leads([&] { return through_cache(reading, file, pieces, count, offset); });
      case Way::watching:
        if (leads([&] { return before_host_read(file); }) == 0) break;
        return leads([&] { return through_cache(reading, file, pieces, count, offset); });
      case Way::changing: {
        const int begun = leads([&] { return begin_host_write(file); });
        if (begun == 0) break;
        if (begun < 0) {
          return leads([&] {
            const cache::OpenFile* entry = cache::CachedFiles(requester_).find(file);
            if (entry == nullptr || appends(*entry, flags)) return Answer{begun, 0};
            return through_cache(reading, file, pieces, count, offset);
          });
        }
        const Answer answer = host();
        leads([&] { return end_host_write(file, pieces, count, offset, flags, answer.result); });
        return answer;
      }
    }
    return host();
  }

  FERRY_DEVICE_CALL Answer through_cache(bool reading, int file, const IoVector* pieces, int count,
                                         std::int64_t offset) {
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    if (entry == nullptr) return Answer{-EBADF, 0};
    std::uint64_t total = 0;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t bytes = clamp(total + clamp(pieces[i].bytes)) - total;
      const std::int64_t at = offset + static_cast<std::int64_t>(total);
      const std::int64_t moved = reading ? files.read(*entry, file, pieces[i].base, bytes, at)
                                         : files.write(*entry, pieces[i].base, bytes, at);
      if (moved < 0) return Answer{total > 0 ? static_cast<std::int64_t>(total) : moved, 0};
      total += static_cast<std::uint64_t>(moved);
      if (static_cast<std::uint64_t>(moved) < bytes) break;
    }
    return Answer{static_cast<std::int64_t>(total), 0};
  }

  // 0, or the error that keeps something dirty from the storage.
  FERRY_DEVICE_CALL int before_host_read(int file) {
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    return entry != nullptr ? static_cast<int>(files.pages().flush(entry->inode)) : 0;
  }
  // 1: end_host_write() has to follow. 0: the file is not cached. Else the error that keeps
  // something dirty from the storage, and nothing has begun.
  FERRY_DEVICE_CALL int begin_host_write(int file) {
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    if (entry == nullptr) return 0;
    changing_ = entry->inode;
    files.pages().begin_outside(changing_);
    const auto error = static_cast<int>(files.pages().flush(changing_));
    if (error != 0) files.pages().end_outside(changing_);
    return error != 0 ? error : 1;
  }
  FERRY_DEVICE_CALL int end_host_write(int file, const IoVector* pieces, int count,
                                       std::int64_t offset, std::uint8_t flags,
                                       std::int64_t written) {
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    const bool appended = entry != nullptr ? appends(*entry, flags) : (flags & flag_append) != 0;
    if (written > 0 && appended) {
      // Where it went is not known here, and others may have appended too.
      FileStatus status{};
      files.pages().drop(changing_);
      if (status_of(file, status) == 0) files.pages().resize(changing_, status.size_bytes);
    }
    auto left = static_cast<std::uint64_t>(written > 0 && !appended ? written : 0);
    auto at = static_cast<std::uint64_t>(offset);
    for (int i = 0; i < count && left > 0; ++i) {
      const std::uint64_t step = pieces[i].bytes < left ? pieces[i].bytes : left;
      files.pages().update(changing_, pieces[i].base, step, at);
      at += step;
      left -= step;
    }
    files.pages().end_outside(changing_);
    return 0;
  }

  Group group_;
  Requester requester_;
  Placement placement_;

 private:
  std::uint32_t changing_ = 0;  // the leader's: the file whose outside call is under way
};

}  // namespace ferry::device
