// Asynchronous transfers, single and in batches: started now, waited for later.
#pragma once

#include <cstdint>

#include <ferry/device/coherence.hpp>
#include <ferry/device/control.hpp>

namespace ferry::device {

// One transfer of a batch.
struct BatchTransfer {
  int file = -1;
  void* buffer = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t offset = 0;
};

// A transfer in flight. Its buffer belongs to Ferry until wait() returns.
struct Pending {
  Ticket ticket;
  std::int64_t result = 0;  // once `finished`
  bool finished = true;
  Opcode opcode = Opcode::read;  // with `transfer` for wait() to repeat what no service has begun
  BatchTransfer transfer{};
};

inline constexpr std::uint32_t batch_requests_max = 16;

// The leader's part of start_batch(): requests for those in `chosen` that are not finished yet.
FERRY_DEVICE inline void submit_in_arena(Requester& requester, Opcode opcode,
                                         const BatchTransfer* transfers, std::uint32_t count,
                                         Pending* pending, std::uint32_t chosen, Target target) {
  const auto is_due = [&](std::uint32_t i) {
    return !pending[i].finished && (chosen & (1U << i)) != 0;
  };
  const auto fail = [&](std::uint32_t i, std::int64_t error) {
    pending[i].result = error;
    pending[i].finished = true;
  };
  Request requests[batch_requests_max];
  std::uint32_t ready = 0;
  FERRY_NO_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!is_due(i)) continue;
    const BatchTransfer& one = transfers[i];
    requests[ready] = transfer_request(requester.arena(), opcode_for(target, opcode), one.file,
                                       one.buffer, clamp_transfer(one.bytes), one.offset);
    const int error = requester.prepare(requests[ready], pending[i].ticket, 1, target);
    if (error == 0) ++ready;
    if (error != 0) fail(i, error);
  }
  if (ready == 0) return;
  const int error = requester.submit(requests, ready);
  for (std::uint32_t i = 0; error != 0 && i < count; ++i)
    if (is_due(i)) fail(i, error == -ETIMEDOUT ? taken_back : error);
}

// Executes a transfer here that was lent to a service and taken back.
template <class Group>
FERRY_DEVICE std::int64_t serve_pending(Caller<Group>& caller, const Pending& pending) {
  const BatchTransfer& one = pending.transfer;
  const IoVector piece{one.buffer, clamp_transfer(one.bytes)};
  return serve_here(caller, TransferCall{pending.opcode, one.file, &piece, 1, one.offset}).result;
}

// One doorbell (and one more for a service) for at most batch_requests_max transfers.
template <class Group>
FERRY_DEVICE void start_batch(Caller<Group>& caller, Opcode opcode, const BatchTransfer* transfers,
                              std::uint32_t count, Pending* pending) {
  Requester& requester = caller.requester;
  std::uint32_t served = 0;  // one bit each
  FERRY_NO_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) {
    const BatchTransfer& one = transfers[i];
    const IoVector piece{one.buffer, clamp_transfer(one.bytes)};
    pending[i] = Pending{};
    pending[i].opcode = opcode;
    pending[i].transfer = one;
    CacheRole role = cache_role(caller, TransferCall{opcode, one.file, &piece, 1, one.offset});
    // While dirty data cannot be written back, the host would read stale data.
    if (role == CacheRole::flushes &&
        caller.leads([&] { return flush_for_host(requester, one.file, cache::Pages{}); }) < 0)
      role = CacheRole::serves;
    // Work of the page cache on this core, also for coherence, happens immediately; so do errors.
    if (!requester.arena().contains(piece.base, piece.bytes) || one.bytes > file_offset_max ||
        role == CacheRole::serves || role == CacheRole::follows) {
      pending[i].result =
          transfer_piece(caller, opcode, one.file, one.buffer, one.bytes, one.offset);
    } else {
      pending[i].finished = false;
      if (role == CacheRole::lends) served |= 1U << i;
    }
  }
  caller.group.sync();
  if (caller.group.lane() == 0) {
    submit_in_arena(requester, opcode, transfers, count, pending, ~served, Target::server);
    if (served != 0)
      submit_in_arena(requester, opcode, transfers, count, pending, served, Target::service);
  }
  FERRY_NO_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) {
    pending[i] = caller.group.broadcast(pending[i]);
    if (pending[i].result == taken_back) pending[i].result = serve_pending(caller, pending[i]);
  }
}

// As few doorbells as possible.
template <class Group>
FERRY_DEVICE_CALL void start(Caller<Group>& caller, Opcode opcode, const BatchTransfer* transfers,
                             std::uint32_t count, Pending* pending) {
  for (std::uint32_t at = 0; at < count;) {
    const std::uint32_t step = count - at < batch_requests_max ? count - at : batch_requests_max;
    start_batch(caller, opcode, transfers + at, step, pending + at);
    at += step;
  }
}

// Waits for one transfer.
template <class Group>
FERRY_DEVICE_CALL std::int64_t wait_for(Caller<Group>& caller, const Pending& pending) {
  const Answer answer =
      caller.leads([&] { return caller.requester.wait_or_take_back(pending.ticket); });
  return answer.result == taken_back ? serve_pending(caller, pending) : answer.result;
}

// The first ready transfer, from `first` on and around, or one that a service does not begin in
// time; for the leader.
FERRY_DEVICE inline std::uint32_t wait_for_any(Requester& requester, const Pending* pending,
                                               std::uint32_t count, std::uint32_t first) {
  if (pending[first].finished) return first;  // it may have no ticket to wait for
  std::uint32_t found = first;
  const auto find = [&](auto is_it) {
    for (std::uint32_t i = 0; i < count; ++i) {
      found = first + i < count ? first + i : first + i - count;
      if (is_it(pending[found])) return true;
    }
    found = first;
    return false;
  };
  const auto is_any_ready = [&] {
    return find([&](const Pending& one) { return one.finished || requester.done(one.ticket); });
  };
  const Ticket& likely = pending[first].ticket;
  if (requester.wait_until(is_any_ready, likely, true)) return found;
  if (find([&](const Pending& one) { return requester.would_take_back(one.ticket); })) return found;
  requester.wait_until(is_any_ready, likely, false);
  return found;
}

}  // namespace ferry::device
