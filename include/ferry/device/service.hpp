// Placement `service`: executes cached calls for other groups.
//
// The caller's side is the usual one (requester.hpp): a request in a ring, an answer in a cell. The
// other side is either
//   - a ServiceLoop on a reserved device core (on a GPU: in its own block) with its own ring, which
//     answers in cells that the device keeps for it; or
//   - without reserved cores, the I/O server's loop, which passes such a request to serve_cached()
//     and keeps serving its rings meanwhile (server/loop.hpp).
// Either has a group of its own, so its storage requests travel like all others.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/caller.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/group_transfer.hpp>
#include <ferry/device/waiting.hpp>

namespace ferry::device {

// Executes one cached call with the executor's own requester. `request` is a private copy; the
// memory it names is used only after its range was checked. Returns bytes or a negative errno, like
// the call itself. Every lane of the executor calls it.
template <class Group>
FERRY_DEVICE_CALL std::int64_t serve_cached(Caller<Group>& executor, const Request& request) {
  const ArenaView& arena = executor.requester.arena();
  if (!is_cached_call(request.opcode)) return -EINVAL;
  if (executor.group.lane() == 0) add_to(executor.requester.counters().served, 1);
  const TransferDirection direction = direction_of(request.opcode);
  if (!is_vector(request.opcode)) {
    if (!arena.allows(request.buffer, request.length)) return -EFAULT;
    const auto piece_of = [&](int, IoVector& piece) {
      piece = IoVector{arena.address_of(request.buffer), request.length};
      return 0;
    };
    return transfer_together(executor, direction, request.file, 1, request.offset, piece_of);
  }
  if (request.length > extents_max) return -EINVAL;
  if (request.buffer % alignof(BufferExtent) != 0) return -EFAULT;
  if (!arena.allows(request.buffer, request.length * sizeof(BufferExtent))) return -EFAULT;
  const auto piece_of = [&](int i, IoVector& piece) {
    // Copied before the check, by one lane for all: the program may change it meanwhile.
    BufferExtent extent{};
    if (executor.group.lane() == 0) {
      const std::uint64_t at = static_cast<std::uint64_t>(i) * sizeof extent;
      __builtin_memcpy(&extent, arena.address_of(request.buffer) + at, sizeof extent);
    }
    extent = executor.group.broadcast(extent);
    if (!arena.allows(extent.buffer, extent.length)) return -EFAULT;
    piece = IoVector{arena.address_of(extent.buffer), extent.length};
    return 0;
  };
  return transfer_together(executor, direction, request.file, static_cast<int>(request.length),
                           request.offset, piece_of);
}

// Serves others' calls: on a core of the device, or in a block of a GPU, whose leader takes the
// calls and all of whose lanes copy. After `stopping` was announced in its LoopState and its
// doorbell rung (stop_service()), it ends when every claimed ticket is answered.
template <class Group>
class ServiceLoop {
 public:
  // `service` is one of Geometry.services; `index` is the group's own. Every lane has such an
  // object, and runs it.
  FERRY_DEVICE ServiceLoop(const Context& context, Group group, std::uint32_t service,
                           std::uint32_t index)
      : context_(context),
        executor_{group, Requester(context, index)},
        state_(context.arena.loop_state(context.arena.layout.geometry.loops + service)),
        doorbell_(context.arena.doorbell(context.arena.layout.geometry.loops + service)),
        ring_(context.arena.ring(context.arena.layout.geometry.rings + service)) {
    if (group.lane() == 0) ring_.resume();  // where an earlier service of this number ended
  }

  FERRY_DEVICE_CALL void run() {
    for (;;) {
      Request request{};
      if (!executor_.leads([&] { return take(request); })) break;
      request = executor_.group.broadcast(request);
      const std::int64_t result = serve_cached(executor_, request);
      if (executor_.group.lane() == 0) respond(request, result);
    }
    if (executor_.group.lane() != 0) return;
    LoopPhase expected = LoopPhase::stopping;
    SystemRef<LoopPhase>(state_.phase)
        .compare_exchange_strong(expected, LoopPhase::stopped, acq_rel);
  }

 private:
  static constexpr std::uint32_t looks_before_pausing = 64;
  static constexpr std::uint32_t looks_per_clock_read = 16;
  static constexpr std::uint64_t idle_slice_ns = 1'000'000'000;

  FERRY_DEVICE static LoopPhase phase(LoopState& state) {
    return SystemRef<LoopPhase>(state.phase).load(seq_cst);
  }
  // Then nothing waits for requests that are not in the ring yet: the phase tells their callers.
  FERRY_DEVICE bool server_ended() const {
    for (std::uint32_t i = 0; i < context_.arena.layout.geometry.loops; ++i) {
      const LoopPhase now = phase(context_.arena.loop_state(i));
      if (now != LoopPhase::stopped && now != LoopPhase::dead) return false;
    }
    return true;
  }

  // Waits for a call to execute. Returns false if there will be none.
  FERRY_DEVICE bool take(Request& request) {
    for (;;) {
      // R5: seen before the look at the tail.
      const bool stopping = phase(state_) != LoopPhase::running;
      if (ring_.take(request)) {
        looks_ = 0;
        if (request.sequence == 0) continue;  // an abandoned ticket
        if (!context_.arena.is_service_cell(request.cell)) continue;
        if (!take_over(context_.arena.cell(request.cell), request.sequence)) continue;  // R9
        if (!stopping) return true;
        respond(request, -ESHUTDOWN);
      } else if (!stopping) {
        idle();
      } else if (ring_.outstanding() == 0 || server_ended()) {
        return false;
      } else {
        yield(context_.hooks);  // a claimed ticket is published immediately
      }
    }
  }

  FERRY_DEVICE void respond(const Request& request, std::int64_t result) const {
    AnswerCell& cell = context_.arena.cell(request.cell);
    if (answer(cell, request.sequence, result, 0)) wake(context_.hooks, cell.sequence);
  }

  // Polls for as long as spinning helps, then sleeps.
  FERRY_DEVICE void idle() {
    if (context_.wait.spin_ns > 0) {
      if (++looks_ < looks_before_pausing) return;
      pause_briefly();
      if (looks_ == looks_before_pausing) idle_since_ns_ = clock_ns(context_.hooks);
      if (looks_ % looks_per_clock_read != 0) return;
      if (clock_ns(context_.hooks) - idle_since_ns_ < context_.wait.spin_ns) return;
    }
#if defined(__CUDA_ARCH__)
    yield(context_.hooks);
#else
    const std::uint32_t seen = SystemRef<std::uint32_t>(doorbell_.count).load(acquire);
    SystemRef<std::uint32_t> parked(state_.parked);
    parked.store(1, seq_cst);
    // R6: look again. A stop rings, so `seen` covers it.
    if (!ring_.ready() && phase(state_) == LoopPhase::running)
      context_.hooks.park(&doorbell_.count, seen, idle_slice_ns);
    parked.store(0, relaxed);
#endif
  }

  const Context& context_;
  Caller<Group> executor_;
  LoopState& state_;
  LoopDoorbell& doorbell_;
  RingConsumer ring_;
  std::uint32_t looks_ = 0;
  std::uint64_t idle_since_ns_ = 0;
};

// Announces the end to a service: it answers claimed tickets with -ESHUTDOWN, and ends.
FERRY_DEVICE inline void announce_stop(const Context& context, std::uint32_t service) {
  const std::uint32_t index = context.arena.layout.geometry.loops + service;
  LoopPhase expected = LoopPhase::running;
  SystemRef<LoopPhase>(context.arena.loop_state(index).phase)
      .compare_exchange_strong(expected, LoopPhase::stopping, seq_cst);
}
// The same to one that may be asleep.
inline void stop_service(const Context& context, std::uint32_t service) {
  announce_stop(context, service);
  const std::uint32_t index = context.arena.layout.geometry.loops + service;
  LoopDoorbell& bell = context.arena.doorbell(index);
  SystemRef<std::uint32_t>(bell.count).fetch_add(1, release);
  context.hooks.wake(&bell.count);
}

}  // namespace ferry::device
