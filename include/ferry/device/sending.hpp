// Sends a read or write as requests to the server or a service: in place if its memory is in the
// arena, else through the group's staging area.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cached_transfer.hpp>
#include <ferry/device/caller.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/file_position.hpp>
#include <ferry/device/group_transfer.hpp>

namespace ferry::device {

inline constexpr std::uint64_t file_offset_max = 0x7fffffffffffffff;

FERRY_DEVICE inline std::uint64_t bytes_of(const IoVector* pieces, int count) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < count; ++i)
    bytes = clamp_transfer(bytes + clamp_transfer(pieces[i].bytes));
  return bytes;
}

// One read or write call.
struct TransferCall {
  Opcode opcode;  // for the single request that does it in place
  int file;
  const IoVector* pieces;
  int count;
  std::int64_t offset;
  std::uint8_t flags = 0;
  std::uint64_t bytes = bytes_of(pieces, count);  // at most transfer_bytes_max

  FERRY_DEVICE bool reads() const { return direction_of(opcode) == TransferDirection::read; }
};

// On the calling core, through the page cache, which may use the group's staging area. The call's
// first `done` bytes are already moved. Returns them and what follows, or an error if there is
// none.
template <class Group>
FERRY_DEVICE_CALL Answer serve_here(Caller<Group>& caller, const TransferCall& call,
                                    std::uint64_t done = 0) {
  std::uint64_t skip = done;
  std::uint64_t rest = call.bytes - done;
  const auto piece_of = [&](int i, IoVector& piece) {
    piece = call.pieces[i];
    const std::uint64_t first = piece.bytes < skip ? piece.bytes : skip;
    piece.base = static_cast<unsigned char*>(piece.base) + first;
    piece.bytes = piece.bytes - first < rest ? piece.bytes - first : rest;
    skip -= first;
    rest -= piece.bytes;
    return 0;
  };
  const auto moved = static_cast<std::int64_t>(done);
  const std::int64_t result = transfer_together(caller, direction_of(call.opcode), call.file,
                                                call.count, call.offset + moved, piece_of);
  // Like POSIX: an error after some bytes were moved is reported by the next call.
  return Answer{result >= 0 ? moved + result : moved > 0 ? moved : result, 0};
}

FERRY_DEVICE constexpr Opcode opcode_for(Target target, Opcode transfer) {
  return target == Target::service ? cached_call(transfer) : transfer;
}

// Copies bytes [from, from + bytes) of the concatenated pieces to or from `area`.
template <class Group>
FERRY_DEVICE void copy_pieces(Group group, const TransferCall& call, std::uint64_t from,
                              unsigned char* area, std::uint64_t bytes) {
  std::uint64_t start = 0;  // of piece i in the concatenation
  for (int i = 0; i < call.count && bytes > 0; start += call.pieces[i].bytes, ++i) {
    const std::uint64_t end = start + call.pieces[i].bytes;
    if (from >= end) continue;
    const std::uint64_t step = end - from < bytes ? end - from : bytes;
    auto* memory = static_cast<unsigned char*>(call.pieces[i].base) + (from - start);
    copy_bytes(group, call.reads() ? memory : area, call.reads() ? area : memory, step);
    area += step;
    from += step;
    bytes -= step;
  }
}

// Whether a write goes to the end of the file.
template <class Group>
FERRY_DEVICE bool appends(Caller<Group>& caller, int file, std::uint8_t flags) {
  return caller.leads([&] {
    FilePosition& position = position_of(caller.requester.arena(), file);
    return (flags & flag_append) != 0 ||
           DeviceRef<std::uint32_t>(position.append).load(relaxed) != 0;
  });
}

// An append larger than a staging area is still one write, or other writers' bytes could come
// between: the server keeps the pieces until it has the last one.
template <class Group>
FERRY_DEVICE_CALL Answer append_staged(Caller<Group>& caller, const TransferCall& call) {
  const ArenaView& arena = caller.requester.arena();
  const std::uint64_t area_bytes = arena.layout.geometry.staging_bytes;
  unsigned char* area = arena.staging(caller.requester.group());
  for (std::uint64_t done = 0;;) {
    const std::uint64_t left = call.bytes - done;
    const std::uint64_t step = left < area_bytes ? left : area_bytes;
    copy_pieces(caller.group, call, done, area, step);
    const Answer answer = caller.leads([&] {
      Request request =
          transfer_request(arena, Opcode::write, call.file, area, step, call.offset, call.flags);
      if (step < left) request.flags |= flag_more;
      request.kept = done;
      caller.requester.count_staged(step, done == 0);
      return caller.requester.call(request);
    });
    if (answer.result < 0 || step == left) return answer;
    done += step;
  }
}

// Moves the call through the staging area, one area's worth per request, until all is moved or the
// storage returns less than requested. `counted`: because its memory is outside the arena.
template <class Group>
FERRY_DEVICE_CALL Answer send_staged(Caller<Group>& caller, const TransferCall& call, Target target,
                                     bool counted) {
  const ArenaView& arena = caller.requester.arena();
  const std::uint64_t area_bytes = arena.layout.geometry.staging_bytes;
  unsigned char* area = arena.staging(caller.requester.group());
  // A range that no file has, which in steps would be refused half way.
  if (call.offset < 0 || call.bytes > file_offset_max - static_cast<std::uint64_t>(call.offset))
    return Answer{-EINVAL, 0};
  if (!call.reads() && call.bytes > area_bytes && appends(caller, call.file, call.flags))
    return append_staged(caller, call);
  Answer sum{0, 0};
  do {
    const auto done = static_cast<std::uint64_t>(sum.result);
    const std::uint64_t left = call.bytes - done;
    const std::uint64_t step = left < area_bytes ? left : area_bytes;
    if (!call.reads()) copy_pieces(caller.group, call, done, area, step);
    const Answer answer = caller.leads([&] {
      const Opcode opcode = opcode_for(target, call.reads() ? Opcode::read : Opcode::write);
      Request request = transfer_request(arena, opcode, call.file, area, step,
                                         call.offset + sum.result, call.flags);
      if (counted) caller.requester.count_staged(step, done == 0);
      return caller.requester.call(request, target);
    });
    if (answer.result == taken_back) return serve_here(caller, call, done);
    // As above.
    if (answer.result < 0) return done > 0 ? sum : answer;
    const auto got = static_cast<std::uint64_t>(answer.result);
    if (call.reads()) copy_pieces(caller.group, call, done, area, got);
    sum.result += answer.result;
    sum.value = answer.value;
    if (got < step) break;
  } while (static_cast<std::uint64_t>(sum.result) < call.bytes);
  return sum;
}

// Lets the target execute the call, bypassing what the caller's core could do itself.
template <class Group>
FERRY_DEVICE_ONCE Answer send(Caller<Group>& caller, const TransferCall& call, Target target) {
  const ArenaView& arena = caller.requester.arena();
  bool inside = true;
  for (int i = 0; i < call.count; ++i)
    inside = inside && arena.contains(call.pieces[i].base, call.pieces[i].bytes);
  const bool pulled =
      !is_vector(call.opcode) && call.bytes <= caller.requester.context().pull_bytes;
  if (!inside || pulled) return send_staged(caller, call, target, !inside);
  const Answer answer = caller.leads([&] {
    const Opcode opcode = opcode_for(target, call.opcode);
    Request request;
    if (is_vector(call.opcode)) {
      auto* extents = reinterpret_cast<BufferExtent*>(arena.scratch(caller.requester.group()));
      for (int i = 0; i < call.count; ++i)
        extents[i] = BufferExtent{arena.offset_of(call.pieces[i].base), call.pieces[i].bytes};
      request = transfer_request(arena, opcode, call.file, extents,
                                 static_cast<std::uint64_t>(call.count), call.offset, call.flags);
    } else {
      request = transfer_request(arena, opcode, call.file, call.pieces[0].base, call.bytes,
                                 call.offset, call.flags);
    }
    return caller.requester.call(request, target);
  });
  return answer.result == taken_back ? serve_here(caller, call) : answer;
}

}  // namespace ferry::device
