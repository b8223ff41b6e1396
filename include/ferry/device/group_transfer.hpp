// A transfer through the page cache by all lanes of a group: the leader finds and pins each page,
// and every lane copies its part.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/cached_transfer.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/group_hold.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// Every lane calls transfer(), with the same arguments.
template <class Group>
class GroupTransfer {
 public:
  // `requester`: the leader's is used.
  FERRY_DEVICE GroupTransfer(Group group, Requester& requester, int file)
      : group_(group), requester_(requester), file_(file) {}

  // As cached_transfer(), of which this is the form for several lanes. `piece_of(i, out)` has to
  // give every lane the same.
  template <class PieceOf>
  FERRY_DEVICE_CALL std::int64_t transfer(bool reading, int count, std::int64_t offset,
                                          PieceOf piece_of) {
    std::uint64_t total = 0;
    for (int i = 0; i < count; ++i) {
      IoVector piece;
      std::int64_t moved = piece_of(i, piece);
      const std::uint64_t bytes = clamp_transfer(total + clamp_transfer(piece.bytes)) - total;
      auto* memory = static_cast<unsigned char*>(piece.base);
      const std::int64_t at = offset + static_cast<std::int64_t>(total);
      if (moved == 0) moved = reading ? read(memory, bytes, at) : write(memory, bytes, at);
      if (moved < 0) return total > 0 ? static_cast<std::int64_t>(total) : moved;
      total += static_cast<std::uint64_t>(moved);
      if (static_cast<std::uint64_t>(moved) < bytes) break;
    }
    return static_cast<std::int64_t>(total);
  }

 private:
  template <class Work>
  FERRY_DEVICE std::int64_t leads(Work work) {
    std::int64_t result = 0;
    group_.sync();
    if (group_.lane() == 0) {
      cache::CachedFiles files(requester_);
      const cache::OpenFile* entry = files.find(file_);
      result = entry == nullptr ? -EBADF : work(files, *entry);
    }
    return group_.broadcast(result);
  }

  FERRY_DEVICE_CALL std::int64_t read(unsigned char* to, std::uint64_t bytes, std::int64_t offset) {
    std::uint64_t done = 0;
    do {
      const std::int64_t at = offset + static_cast<std::int64_t>(done);
      cache::HeldView view;
      std::int64_t got = hold_together(group_, requester_, file_, at, bytes - done, view);
      if (got == -EAGAIN) {
        // Views hold half the cache: then the leader copies alone, which needs a page for less
        // long.
        got = leads([&](cache::CachedFiles& files, const cache::OpenFile& entry) {
          return files.read(entry, file_, to + done, bytes - done, at);
        });
      }
      if (got <= 0) return done > 0 ? static_cast<std::int64_t>(done) : got;
      if (view.data != nullptr) {
        copy_bytes(group_, to + done, view.data, view.bytes);
        if (group_.lane() == 0) {
          cache::release_view(requester_.context().cache, requester_.group(), view);
        }
      }
      done += static_cast<std::uint64_t>(got);
    } while (done < bytes);
    return static_cast<std::int64_t>(done);
  }

  FERRY_DEVICE_CALL std::int64_t write(const unsigned char* from, std::uint64_t bytes,
                                       std::int64_t offset) {
    std::uint64_t done = 0;
    do {
      const std::int64_t at = offset + static_cast<std::int64_t>(done);
      cache::WriteAccess access;
      std::int64_t error = leads([&](cache::CachedFiles& files, const cache::OpenFile& entry) {
        return bytes == 0 ? files.write(entry, from, 0, at)
                          : files.begin_write(entry, bytes - done, at, access);
      });
      if (error == cache::past) {  // by the leader alone, then
        error = leads([&](cache::CachedFiles& files, const cache::OpenFile& entry) {
          return files.write(entry, from + done, bytes - done, at);
        });
        if (error < 0) return done > 0 ? static_cast<std::int64_t>(done) : error;
        return static_cast<std::int64_t>(done) + error;
      }
      if (error != 0) return done > 0 ? static_cast<std::int64_t>(done) : error;
      if (bytes == 0) return 0;
      access = group_.broadcast(access);
      copy_bytes(group_, access.data, from + done, access.bytes);
      error = leads([&](cache::CachedFiles& files, const cache::OpenFile& entry) {
        return files.end_write(entry, at, access);
      });
      if (error == cache::again) continue;
      if (error != 0) return done > 0 ? static_cast<std::int64_t>(done) : error;
      done += access.bytes;
    } while (done < bytes);
    return static_cast<std::int64_t>(done);
  }

  Group group_;
  Requester& requester_;
  int file_;
};

// cached_transfer() by however many lanes the group has.
template <class Group, class PieceOf>
FERRY_DEVICE std::int64_t transfer_together(Group group, Requester& requester, bool reading,
                                            int file, int count, std::int64_t offset,
                                            PieceOf piece_of) {
  if (!has_several_lanes(group))
    return cached_transfer(requester, reading, file, count, offset, piece_of);
  return GroupTransfer<Group>(group, requester, file).transfer(reading, count, offset, piece_of);
}

}  // namespace ferry::device
