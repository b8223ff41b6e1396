// Transfers that are started now and waited for later, alone and in batches.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/control.hpp>
#include <ferry/device/page_calls.hpp>
#include <ferry/device/requester.hpp>
#include <ferry/device/ring.hpp>

namespace ferry::device {

// One transfer of a batch.
struct Transfer {
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
};

// A base of FileCalls, which says what every call has in common.
template <class Group>
class PendingCalls : public PageCalls<Group> {
 public:
  // Starts a transfer and returns at once; wait() gives its result, exactly once. A buffer outside
  // the arena is transferred before the call returns, and so is what goes through the page cache on
  // this core.
  FERRY_DEVICE Pending pread_async(int file, void* buffer, std::uint64_t bytes,
                                   std::int64_t offset) {
    const Transfer one{file, buffer, bytes, offset};
    Pending pending;
    start(Opcode::read, &one, 1, &pending);
    return pending;
  }
  FERRY_DEVICE Pending pwrite_async(int file, const void* buffer, std::uint64_t bytes,
                                    std::int64_t offset) {
    const Transfer one{file, const_cast<void*>(buffer), bytes, offset};
    Pending pending;
    start(Opcode::write, &one, 1, &pending);
    return pending;
  }
  // Starts `count` transfers with as few doorbells as possible (one per 16).
  FERRY_DEVICE void pread_batch(const Transfer* transfers, std::uint32_t count, Pending* pending) {
    start(Opcode::read, transfers, count, pending);
  }
  FERRY_DEVICE void pwrite_batch(const Transfer* transfers, std::uint32_t count, Pending* pending) {
    start(Opcode::write, transfers, count, pending);
  }

  // Waits for one transfer: bytes or a negative errno.
  FERRY_DEVICE std::int64_t wait(Pending& pending) {
    if (!pending.finished) {
      pending.result = leads([&] { return requester_.wait(pending.ticket).result; });
      pending.finished = true;
    }
    return pending.result;
  }
  // Waits until at least one of `count` (> 0) transfers is ready and returns its index, by turns
  // where several are. wait() on it returns at once. A transfer that was waited for counts as
  // ready, so start a new one in its place or leave it out.
  FERRY_DEVICE std::uint32_t wait_any(const Pending* pending, std::uint32_t count) {
    return leads([&] {
      std::uint32_t found = next_any_ % count;
      requester_.wait_until(
          [&] {
            for (std::uint32_t i = 0; i < count; ++i) {
              const std::uint32_t index = found + i < count ? found + i : found + i - count;
              if (!pending[index].finished && !requester_.done(pending[index].ticket)) continue;
              found = index;
              return true;
            }
            return false;
          },
          pending[found].ticket);
      next_any_ = found + 1;
      return found;
    });
  }
  // Whether wait() would return at once.
  FERRY_DEVICE bool ready(const Pending& pending) const {
    return pending.finished ||
           group_.broadcast(group_.lane() == 0 && requester_.done(pending.ticket));
  }

  // Waits for every transfer of this group that nobody has waited for, and forgets the results. The
  // device calls it when a program ends, so that nothing writes into a buffer afterwards.
  FERRY_DEVICE void drain() {
    group_.sync();
    if (group_.lane() == 0) requester_.drain();
    group_.sync();
  }

 protected:
  using Base = PageCalls<Group>;
  using Base::before_host_read;
  using Base::clamp;
  using Base::group_;
  using Base::has_cache;
  using Base::leads;
  using Base::requester_;
  using Base::transfer;
  using Base::transfer_request;
  using Base::way_of;
  using typename Base::Way;

  static constexpr std::uint32_t batch_max = 16;

  FERRY_DEVICE PendingCalls(const Context& context, Group group, std::uint32_t group_index)
      : Base(context, group, group_index) {}

 private:
  FERRY_DEVICE_CALL void start(Opcode opcode, const Transfer* transfers, std::uint32_t count,
                               Pending* pending) {
    for (std::uint32_t at = 0; at < count;) {
      const std::uint32_t step = count - at < batch_max ? count - at : batch_max;
      start_some(opcode, transfers + at, step, pending + at);
      at += step;
    }
  }

  // One doorbell (and one more for a service) for at most batch_max transfers.
  FERRY_DEVICE void start_some(Opcode opcode, const Transfer* transfers, std::uint32_t count,
                               Pending* pending) {
    std::uint32_t served = 0;  // one bit each
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      const Transfer& one = transfers[i];
      pending[i] = Pending{};
      Way way = has_cache() ? leads([&] {
        return way_of(opcode == Opcode::read, one.file, clamp(one.bytes), one.offset, 0);
      })
                            : Way::past;
      // While something dirty cannot be written back, the host would read what is older.
      if (way == Way::watching &&
          leads([&] { return before_host_read(one.file, cache::Pages{}); }) < 0)
        way = Way::cached;
      // What the page cache does on this core, or has to follow, is done at once.
      if (!requester_.arena().contains(one.buffer, clamp(one.bytes)) || way == Way::cached ||
          way == Way::changing) {
        pending[i].result = transfer(opcode, one.file, one.buffer, one.bytes, one.offset);
      } else {
        pending[i].finished = false;
        if (way == Way::served) served |= 1U << i;
      }
    }
    group_.sync();
    if (group_.lane() == 0) {
      submit_in_arena(opcode, transfers, count, pending, ~served, Target::server);
      if (served != 0) submit_in_arena(opcode, transfers, count, pending, served, Target::service);
    }
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      pending[i] = group_.broadcast(pending[i]);
  }

  // The leader's part: requests for those in `chosen` that are not finished yet.
  FERRY_DEVICE void submit_in_arena(Opcode opcode, const Transfer* transfers, std::uint32_t count,
                                    Pending* pending, std::uint32_t chosen, Target target) {
    Request requests[batch_max];
    std::uint32_t ready = 0;
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      if (pending[i].finished || (chosen & (1U << i)) == 0) continue;
      const Transfer& one = transfers[i];
      requests[ready] = transfer_request(target == Target::service ? cached_call(opcode) : opcode,
                                         one.file, one.buffer, clamp(one.bytes), one.offset);
      const int error = requester_.prepare(requests[ready], pending[i].ticket, 1, target);
      if (error != 0) {
        pending[i].result = error;
        pending[i].finished = true;
      } else {
        ++ready;
      }
    }
    if (ready == 0) return;
    const int error = requester_.submit(requests, ready);
    for (std::uint32_t i = 0; error != 0 && i < count; ++i) {
      if (pending[i].finished || (chosen & (1U << i)) == 0) continue;
      pending[i].result = error;
      pending[i].finished = true;
    }
  }

  std::uint32_t next_any_ = 0;  // where the next wait_any() begins to look
};

}  // namespace ferry::device
