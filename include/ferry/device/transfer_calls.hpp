// Reads and writes that wait: at an offset, of several pieces, at the file's position. In place
// where the buffer lies in the arena, through this group's staging area where it does not.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/coherent_calls.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/file_position.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// A base of FileCalls, which says what every call has in common.
template <class Group>
class TransferCalls : protected CoherentCalls<Group> {
 public:
  // ---- transfers at an explicit offset ---------------------------------------------------------

  FERRY_DEVICE std::int64_t pread(int file, void* buffer, std::uint64_t bytes,
                                  std::int64_t offset) {
    const bool hit = has_several_lanes(group_) ? read_hit_together(file, buffer, bytes, offset)
                                               : read_hit(file, buffer, bytes, offset);
    if (hit) return static_cast<std::int64_t>(bytes);
    return transfer(Opcode::read, file, buffer, bytes, offset);
  }
  // On a file opened with O_APPEND the data goes to the end of the file, as on Linux.
  FERRY_DEVICE std::int64_t pwrite(int file, const void* buffer, std::uint64_t bytes,
                                   std::int64_t offset) {
    return transfer(Opcode::write, file, const_cast<void*>(buffer), bytes, offset);
  }

  // At most extents_max (1024) pieces, else -EINVAL. One request when every piece lies in the
  // arena; staged one staging area at a time otherwise.
  FERRY_DEVICE std::int64_t preadv(int file, const IoVector* pieces, int count,
                                   std::int64_t offset) {
    return transfer_vector(Opcode::read_vector, file, pieces, count, offset);
  }
  FERRY_DEVICE std::int64_t pwritev(int file, const IoVector* pieces, int count,
                                    std::int64_t offset) {
    return transfer_vector(Opcode::write_vector, file, pieces, count, offset);
  }

  // ---- transfers at the file's position --------------------------------------------------------

  // The position is shared by all threads that use the handle; calls on it take turns.
  FERRY_DEVICE std::int64_t read(int file, void* buffer, std::uint64_t bytes) {
    return at_position(Opcode::read, file, buffer, bytes);
  }
  FERRY_DEVICE std::int64_t write(int file, const void* buffer, std::uint64_t bytes) {
    return at_position(Opcode::write, file, const_cast<void*>(buffer), bytes);
  }

 protected:
  using Base = CoherentCalls<Group>;
  using Base::clamp;
  using Base::coherently;
  using Base::group_;
  using Base::has_cache;
  using Base::leads;
  using Base::read_hit;
  using Base::read_hit_together;
  using Base::requester_;

  FERRY_DEVICE TransferCalls(const Context& context, Group group, std::uint32_t group_index)
      : Base(context, group, group_index) {}

  FERRY_DEVICE FilePosition& position_of(int file) const {
    const std::uint32_t files = requester_.arena().layout.geometry.files;
    return requester_.arena().position(handle_index(file, files) % files);
  }

  FERRY_DEVICE Request transfer_request(Opcode opcode, int file, const void* buffer,
                                        std::uint64_t bytes, std::int64_t offset) const {
    Request request{};
    request.opcode = opcode;
    request.file = file;
    request.offset = offset;
    request.buffer = requester_.arena().offset_of(buffer);
    request.length = bytes;
    return request;
  }

  FERRY_DEVICE_CALL std::int64_t transfer(Opcode opcode, int file, void* buffer,
                                          std::uint64_t bytes, std::int64_t offset) {
    bytes = clamp(bytes);
    if (buffer == nullptr && bytes > 0) return -EFAULT;
    return transfer_one(opcode, file, IoVector{buffer, bytes}, offset, 0).result;
  }

 private:
  static constexpr std::int64_t offset_max = 0x7fffffffffffffff;

  FERRY_DEVICE Answer transfer_one(Opcode opcode, int file, const IoVector& piece,
                                   std::int64_t offset, std::uint8_t flags) {
    return coherently(opcode == Opcode::read, file, &piece, 1, offset, flags, [&](Target target) {
      const bool outside = !requester_.arena().contains(piece.base, piece.bytes);
      if (outside || piece.bytes <= requester_.context().pull_bytes) {
        return transfer_staged(opcode, file, &piece, 1, offset, flags, target, outside);
      }
      return leads([&] {
        Request request = transfer_request(opcode, file, piece.base, piece.bytes, offset);
        request.flags = flags;
        return call_by(target, request);
      });
    });
  }

  FERRY_DEVICE Answer call_by(Target target, Request& request) {
    if (target == Target::service) request.opcode = cached_call(request.opcode);
    return requester_.call(request, target);
  }

  // Moves `pieces` through the staging area, one area's worth per request, until everything is
  // moved or the storage gives less than was asked for.
  FERRY_DEVICE_CALL Answer transfer_staged(Opcode opcode, int file, const IoVector* pieces,
                                           int count, std::int64_t offset, std::uint8_t flags,
                                           Target target, bool counted = true) {
    const bool reading = opcode == Opcode::read || opcode == Opcode::read_vector;
    const std::uint64_t area_bytes = requester_.arena().layout.geometry.staging_bytes;
    unsigned char* area = requester_.arena().staging(requester_.group());
    std::uint64_t total = 0;
    for (int i = 0; i < count; ++i)
      total = clamp(total + clamp(pieces[i].bytes));
    // A range that no file has; in steps it would be refused half way.
    if (offset < 0 || total > static_cast<std::uint64_t>(offset_max - offset)) {
      return Answer{-EINVAL, 0};
    }
    if (!reading && total > area_bytes && appends(file, flags))
      return append_staged(file, pieces, count, total, offset, flags);
    Answer sum{0, 0};
    do {
      const auto done = static_cast<std::uint64_t>(sum.result);
      const std::uint64_t left = total - done;
      const std::uint64_t step = left < area_bytes ? left : area_bytes;
      if (!reading) move(pieces, count, done, area, step, true);
      const Answer answer = leads([&] {
        Request request = transfer_request(reading ? Opcode::read : Opcode::write, file, area, step,
                                           offset + static_cast<std::int64_t>(done));
        request.flags = flags;
        GroupCounters& counters = requester_.counters();
        if (counted && done == 0) add_to(counters.staged_calls, 1);
        if (counted) add_to(counters.staged_bytes, step);
        return call_by(target, request);
      });
      // As POSIX has it: an error after some bytes were moved is reported by the next call.
      if (answer.result < 0) return done > 0 ? sum : answer;
      const auto got = static_cast<std::uint64_t>(answer.result);
      if (reading) move(pieces, count, done, area, got, false);
      sum.result += answer.result;
      sum.value = answer.value;
      if (got < step) break;
    } while (static_cast<std::uint64_t>(sum.result) < total);
    return sum;
  }

  // Whether a write goes to the end of the file.
  FERRY_DEVICE bool appends(int file, std::uint8_t flags) {
    return leads([&] {
      return (flags & flag_append) != 0 ||
             DeviceRef<std::uint32_t>(position_of(file).append).load(relaxed) != 0;
    });
  }
  // An append of more than one area's worth is still one write, or other writers' bytes could come
  // between its own: the server keeps the pieces until it has the last one.
  FERRY_DEVICE_CALL Answer append_staged(int file, const IoVector* pieces, int count,
                                         std::uint64_t total, std::int64_t offset,
                                         std::uint8_t flags) {
    const std::uint64_t area_bytes = requester_.arena().layout.geometry.staging_bytes;
    unsigned char* area = requester_.arena().staging(requester_.group());
    for (std::uint64_t done = 0;;) {
      const std::uint64_t left = total - done;
      const std::uint64_t step = left < area_bytes ? left : area_bytes;
      move(pieces, count, done, area, step, true);
      const Answer answer = leads([&] {
        Request request = transfer_request(Opcode::write, file, area, step, offset);
        request.flags = step < left ? static_cast<std::uint8_t>(flags | flag_more) : flags;
        request.kept = done;
        GroupCounters& counters = requester_.counters();
        if (done == 0) add_to(counters.staged_calls, 1);
        add_to(counters.staged_bytes, step);
        return requester_.call(request);
      });
      if (answer.result < 0 || step == left) return answer;
      done += step;
    }
  }

  // Copies bytes [from, from + bytes) of the concatenated pieces to or from `area`.
  FERRY_DEVICE void move(const IoVector* pieces, int count, std::uint64_t from, unsigned char* area,
                         std::uint64_t bytes, bool into_area) {
    std::uint64_t start = 0;  // of piece i in the concatenation
    for (int i = 0; i < count && bytes > 0; start += pieces[i].bytes, ++i) {
      const std::uint64_t end = start + pieces[i].bytes;
      if (from >= end) continue;
      const std::uint64_t step = end - from < bytes ? end - from : bytes;
      auto* memory = static_cast<unsigned char*>(pieces[i].base) + (from - start);
      copy_bytes(group_, into_area ? area : memory, into_area ? memory : area, step);
      area += step;
      from += step;
      bytes -= step;
    }
  }

  FERRY_DEVICE_CALL std::int64_t transfer_vector(Opcode opcode, int file, const IoVector* pieces,
                                                 int count, std::int64_t offset) {
    if (count < 0 || static_cast<std::uint32_t>(count) > extents_max) return -EINVAL;
    if (pieces == nullptr && count > 0) return -EFAULT;
    bool direct = true;
    for (int i = 0; i < count; ++i) {
      if (pieces[i].bytes > static_cast<std::uint64_t>(offset_max)) return -EINVAL;
      if (pieces[i].base == nullptr && pieces[i].bytes > 0) return -EFAULT;
      direct = direct && requester_.arena().contains(pieces[i].base, pieces[i].bytes);
    }
    const bool reading = opcode == Opcode::read_vector;
    const auto transfer_extents = [&](Target target) {
      if (!direct) return transfer_staged(opcode, file, pieces, count, offset, 0, target);
      return leads([&] {
        const ArenaView& arena = requester_.arena();
        auto* extents = reinterpret_cast<Extent*>(arena.scratch(requester_.group()));
        for (int i = 0; i < count; ++i) {
          extents[i] = Extent{arena.offset_of(pieces[i].base), pieces[i].bytes};
        }
        Request request =
            transfer_request(opcode, file, extents, static_cast<std::uint64_t>(count), offset);
        return call_by(target, request);
      });
    };
    return coherently(reading, file, pieces, count, offset, 0, transfer_extents).result;
  }

  FERRY_DEVICE_CALL std::int64_t at_position(Opcode opcode, int file, void* buffer,
                                             std::uint64_t bytes) {
    if (buffer == nullptr && bytes > 0) return -EFAULT;
    FilePosition& position = position_of(file);
    // The leader holds the lock for the whole group, across the staged steps.
    if (group_.lane() == 0) PositionLock::lock(position, requester_.context().hooks);
    group_.sync();
    const bool append = opcode == Opcode::write && appends(file, 0);
    const auto offset = static_cast<std::int64_t>(group_.broadcast(position.position));
    const std::uint8_t flags = append ? flag_append : 0;
    const Answer answer = transfer_one(opcode, file, IoVector{buffer, clamp(bytes)}, offset, flags);
    if (group_.lane() == 0) {
      if (answer.result > 0 && position.handle == file) {
        position.position =
            append ? answer.value : static_cast<std::uint64_t>(offset + answer.result);
      }
      PositionLock::unlock(position, requester_.context().hooks);
    }
    group_.sync();
    return answer.result;
  }
};

}  // namespace ferry::device
