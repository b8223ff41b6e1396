// A transfer through the page cache by all lanes of a group: the leader finds and pins each page,
// and every lane copies its part.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/cached_transfer.hpp>
#include <ferry/device/caller.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/group_hold.hpp>

namespace ferry::device {

// Every lane makes each of these calls, with the same arguments.

template <class Group>
FERRY_DEVICE_CALL std::int64_t read_together(Caller<Group>& caller, int file, unsigned char* to,
                                             std::uint64_t bytes, std::int64_t offset) {
  std::uint64_t done = 0;
  do {
    const std::int64_t at = offset + static_cast<std::int64_t>(done);
    cache::PinnedView view;
    std::int64_t got = hold_together(caller, file, at, bytes - done, view);
    if (got == -EAGAIN) {
      // Views hold half the cache: then only the leader copies, which needs a page for less time.
      got = leads_on_file(caller, file, [&](auto& files, auto& entry) {
        return files.read(entry, file, to + done, bytes - done, at);
      });
    }
    if (got <= 0) return done > 0 ? static_cast<std::int64_t>(done) : got;
    if (view.data != nullptr) {
      copy_bytes(caller.group, to + done, view.data, view.bytes);
      if (caller.group.lane() == 0)
        cache::release_view(caller.requester.cache(), caller.requester.group(), view);
    }
    done += static_cast<std::uint64_t>(got);
  } while (done < bytes);
  return static_cast<std::int64_t>(done);
}

template <class Group>
FERRY_DEVICE_CALL std::int64_t write_together(Caller<Group>& caller, int file,
                                              const unsigned char* from, std::uint64_t bytes,
                                              std::int64_t offset) {
  using cache::Step;
  using cache::StepResult;
  std::uint64_t done = 0;
  do {
    const std::int64_t at = offset + static_cast<std::int64_t>(done);
    const auto write_alone = [&](auto& files, auto& entry) {
      return files.write(entry, from + done, bytes - done, at);
    };
    if (bytes == 0) return leads_on_file(caller, file, write_alone);
    cache::WriteAccess access;
    StepResult result = leads_on_file<StepResult>(caller, file, [&](auto& files, auto& entry) {
      return files.begin_write(entry, bytes - done, at, access);
    });
    if (result.step == Step::past) {
      const std::int64_t written = leads_on_file(caller, file, write_alone);
      if (written < 0) return done > 0 ? static_cast<std::int64_t>(done) : written;
      return static_cast<std::int64_t>(done) + written;
    }
    if (result.step == Step::done) {
      access = caller.group.broadcast(access);
      copy_bytes(caller.group, access.data, from + done, access.bytes);
      result = leads_on_file<StepResult>(caller, file, [&](auto& files, auto& entry) {
        return files.end_write(entry, at, access);
      });
    }
    if (result.step == Step::again) continue;
    if (result.step == Step::failed)
      return done > 0 ? static_cast<std::int64_t>(done) : result.value;
    done += access.bytes;
  } while (done < bytes);
  return static_cast<std::int64_t>(done);
}

// cached_transfer() with any number of lanes. `piece_of(i, out)` must return the same on every
// lane.
template <class Group, class PieceOf>
FERRY_DEVICE std::int64_t transfer_together(Caller<Group>& caller, TransferDirection direction,
                                            int file, int count, std::int64_t offset,
                                            PieceOf piece_of) {
  if (!has_several_lanes(caller.group))
    return cached_transfer(caller.requester, direction, file, count, offset, piece_of);
  return move_pieces(count, offset, piece_of,
                     [&](unsigned char* memory, std::uint64_t bytes, std::int64_t at) {
                       return direction == TransferDirection::read
                                  ? read_together(caller, file, memory, bytes, at)
                                  : write_together(caller, file, memory, bytes, at);
                     });
}

}  // namespace ferry::device
