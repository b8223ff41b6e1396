// One group's side of a request ring: its cells, submission, waiting.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/layout.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/crossovers.hpp>
#include <ferry/device/waiting.hpp>

namespace ferry::device {

// Where read and write calls run. All placements see the same bytes.
//   host       by the I/O server
//   compute    on the calling core, through the page cache in device memory
//   service    on cores that serve such calls for others, through the same cache
//   automatic  wherever it is expected to be fastest, chosen for each call
enum class Placement : std::uint8_t { host, compute, service, automatic };

// Everything a device program needs for calls, passed to it as an argument. The same for all groups
// of a device, read-only while programs run.
struct Context {
  ArenaView arena;
  WaitPolicy wait;
  HostHooks hooks{};
  cache::View cache{};  // base is null if there is none
  Placement placement = Placement::host;
  BypassTable bypassed{};
  // Whether calls of placement `service` always have an executor. On a GPU only launches with
  // services do; without them the calling core executes such calls.
  bool always_served = true;
  // Transfers up to this size go through the group's staging area even if their buffer is in the
  // arena: the group copies them itself, which on a GPU is faster than starting a copy engine.
  std::uint64_t pull_bytes = 0;
};

// The receiver of a request: the I/O server, or the executor of cached calls for others, which
// without reserved cores (Geometry.services is 0) is the I/O server's loop as well.
enum class Target : std::uint8_t { server, service };

// A request in flight: its cell and the expected sequence number.
struct Ticket {
  std::uint32_t cell = 0;
  std::uint32_t sequence = 0;
};

struct Answer {
  std::int64_t result = 0;  // or a negative errno
  std::uint64_t value = 0;
};

// The result of a cached call that no executor began in time: it is the caller's again (R9).
inline constexpr std::int64_t taken_back = -0x7fffffffffffffff;
// How long a cached call waits until it is begun.
inline constexpr std::uint64_t unbegun_ns_max = 100'000'000;
// And for how long the next ones then are not lent to that executor. A storage that hangs so costs
// a program that does not use it less than a tenth of its time.
inline constexpr std::uint64_t held_up_ns = 1'000'000'000;

// Used by the leader of one group; not thread-safe.
class Requester {
 public:
  // At most 64 cells. The group's previous Requester, if any, is no longer used; its requests in
  // flight keep their cells until the answers arrive.
  FERRY_DEVICE Requester(const Context& context, std::uint32_t group)
      : Requester(context, group, group % context.arena.layout.geometry.rings) {}
  // For a group that must use a certain ring of the server.
  FERRY_DEVICE Requester(const Context& context, std::uint32_t group, std::uint32_t ring)
      : context_(context),
        group_(group),
        server_{context.arena.ring(ring), ring % context.arena.layout.geometry.loops},
        service_(server_) {
    const Geometry& geometry = context.arena.layout.geometry;
    if (geometry.services > 0) {
      const std::uint32_t index = group % geometry.services;
      service_ = Way{context.arena.ring(geometry.rings + index), geometry.loops + index};
    }
    const std::uint32_t cells = geometry.cells_per_group;
    first_cell_ = group * cells;
    const std::uint64_t all =
        cells >= cells_per_group_max ? ~std::uint64_t{0} : (std::uint64_t{1} << cells) - 1;
    left_ = DeviceRef<std::uint64_t>(state().in_flight).load(relaxed) & ~state().retired;
    at_service_ = DeviceRef<std::uint64_t>(state().at_service).load(relaxed);
    free_ = all & ~state().retired & ~left_;
  }

  FERRY_DEVICE const ArenaView& arena() const { return context_.arena; }
  FERRY_DEVICE const Context& context() const { return context_; }
  FERRY_DEVICE const cache::View& cache() const { return context_.cache; }
  FERRY_DEVICE bool has_cache() const { return context_.cache.base != nullptr; }
  FERRY_DEVICE std::uint32_t group() const { return group_; }
  FERRY_DEVICE GroupState& state() const { return context_.arena.group(group_); }
  FERRY_DEVICE GroupCounters& counters() const { return context_.arena.counters(group_); }
  // `first`: the call's.
  FERRY_DEVICE void count_staged(std::uint64_t bytes, bool first) const {
    if (first) add_to(counters().staged_calls, 1);
    add_to(counters().staged_bytes, bytes);
  }

  // Reserves a cell and writes its address into `request`. -EAGAIN: fewer than `spare` + 1 cells
  // are free. Asynchronous calls leave one spare, so that a synchronous call always finds one.
  FERRY_DEVICE int prepare(Request& request, Ticket& ticket, std::uint32_t spare,
                           Target target = Target::server) {
    if (is_short(spare)) {
      reclaim();
      if (is_short(spare)) return -EAGAIN;
    }
    const std::uint32_t index = lowest_bit(free_);
    const std::uint64_t bit = std::uint64_t{1} << index;
    at_service_ = target == Target::service ? at_service_ | bit : at_service_ & ~bit;
    DeviceRef<std::uint64_t>(state().at_service).store(at_service_, relaxed);
    take(bit);
    std::uint32_t& issued = issued_of(index);
    std::uint32_t sequence = issued + 1;
    if (sequence == 0) sequence = 1;  // 0 means "no answer wanted"
    issued = sequence;
    ticket = Ticket{cell_of(index), sequence};
    if (target == Target::service || is_cached_call(request.opcode)) {
      // Relaxed: publishing the request publishes it.
      SystemRef<std::uint32_t>(arena().cell(ticket.cell).unbegun).store(sequence, relaxed);
    }
    request.cell = ticket.cell;
    request.sequence = sequence;
    return 0;
  }

  // Publishes requests prepared for the same target, as one batch with one look at the doorbell. On
  // an error (-ESHUTDOWN, -EIO; -EINVAL for more requests than the ring has slots; -ETIMEDOUT if a
  // service's ring stays full: the calls are the caller's again) nothing was submitted and the
  // cells are free.
  FERRY_DEVICE_CALL int submit(const Request* requests, std::uint32_t count) {
    if (count == 0) return 0;
    const bool service = (at_service_ & bit_of(requests[0].cell)) != 0;
    // The server takes its requests also while it executes a call.
    const bool may_stay_full = service && context_.arena.layout.geometry.services > 0;
    const int error = publish(requests, count, service ? service_ : server_,
                              may_stay_full ? patience_ns() : no_limit);
    if (error != 0) give_back(requests, count);
    if (error == -ETIMEDOUT) note_taken_back(count);
    return error;
  }
  // One request to the server, answered in another owner's cell.
  FERRY_DEVICE_CALL int submit_shared(const Request& request) {
    return publish(&request, 1, server_, no_limit);
  }

  // Whether calls of Target::service have an executor that does not keep them waiting.
  FERRY_DEVICE bool is_served() const {
    const bool exists = context_.always_served || (context_.arena.layout.geometry.services > 0 &&
                                                   phase(service_) == LoopPhase::running);
    return exists && !is_held_up();
  }

  FERRY_DEVICE bool done(const Ticket& ticket) const {
    AnswerCell& cell = context_.arena.cell(ticket.cell);
    return SystemRef<std::uint32_t>(cell.sequence).load(acquire) == ticket.sequence;
  }

  // Whether the ticket is of this group's cells, and nobody has waited for it.
  FERRY_DEVICE bool awaits(const Ticket& ticket) const {
    const std::uint32_t all = context_.arena.cell_count();
    const std::uint32_t index = (ticket.cell < all ? ticket.cell : ticket.cell - all) - first_cell_;
    if (index >= context_.arena.layout.geometry.cells_per_group) return false;
    const bool in_flight = ((free_ | state().retired) >> index & 1) == 0;
    return in_flight && cell_of(index) == ticket.cell && issued_of(index) == ticket.sequence;
  }

  // Waits until `condition` holds, which answers to this group must bring about, most likely that
  // to `likely`. Returns early when the server is dead or stopped: waiting for an answer then
  // reports that. Returns false if it may be time to take a call back.
  template <class Condition>
  FERRY_DEVICE bool wait_until(Condition condition, const Ticket& likely, bool may_take_back) {
    Waiter waiter(context_.wait, context_.hooks, loop_of(likely));
    const std::uint64_t limit_ns = may_take_back && at_service_ != 0 ? patience_ns() : no_limit;
    AnswerCell& cell = context_.arena.cell(likely.cell);
    const int error = waiter.until(condition, cell.sequence, &cell.parked, limit_ns);
    if (waiter.slept()) add_to(counters().parks, 1);
    return error != -ETIMEDOUT;
  }
  // Whether the next wait_or_take_back() for it takes it back, if nobody begins it before.
  FERRY_DEVICE bool would_take_back(const Ticket& ticket) {
    const bool would = (at_service_ & bit_of(ticket.cell)) != 0 &&
                       is_unbegun(context_.arena.cell(ticket.cell), ticket.sequence);
    if (would) hold_up();
    return would;
  }

  // Waits for the answer and frees the cell.
  FERRY_DEVICE_CALL Answer wait(const Ticket& ticket) { return wait(ticket, no_limit); }
  // The same, but the result is `taken_back` if nobody begins a cached call for a while.
  FERRY_DEVICE_CALL Answer wait_or_take_back(const Ticket& ticket) {
    return wait(ticket, (at_service_ & bit_of(ticket.cell)) != 0 ? patience_ns() : no_limit);
  }

  // Of the server, that takes this group's requests.
  FERRY_DEVICE std::uint32_t loop() const { return server_.loop; }

  // Waits until an unowned cell has the answer `sequence` of server loop `loop`, or a later one.
  // Returns 0, -EIO or -ESHUTDOWN.
  FERRY_DEVICE_CALL int wait_shared(AnswerCell& cell, std::uint32_t loop, std::uint32_t sequence) {
    Waiter waiter(context_.wait, context_.hooks, context_.arena.loop_state(loop));
    const int error = waiter.until_passed(cell.sequence, sequence, cell.parked);
    if (waiter.slept()) add_to(counters().parks, 1);
    return error;
  }

  // Waits for every request in flight, including the previous Requester's, and discards the
  // answers.
  FERRY_DEVICE_CALL void drain() {
    const std::uint32_t cells = context_.arena.layout.geometry.cells_per_group;
    for (std::uint32_t i = 0; i < cells; ++i) {
      const bool in_flight = ((free_ | state().retired) & (std::uint64_t{1} << i)) == 0;
      if (in_flight) wait(Ticket{cell_of(i), issued_of(i)});
    }
    left_ = 0;
  }

  // One request with its wait; a service's may end with `taken_back`.
  FERRY_DEVICE_CALL Answer call(Request& request, Target target = Target::server) {
    Ticket ticket;
    if (const int error = prepare(request, ticket, 0, target); error != 0) return Answer{error, 0};
    const int error = submit(&request, 1);
    if (error != 0) return Answer{error == -ETIMEDOUT ? taken_back : error, 0};
    return wait_or_take_back(ticket);
  }

 private:
  // A ring, and the index of its loop.
  struct Way {
    RequestRing ring;
    std::uint32_t loop;
  };

  FERRY_DEVICE_CALL Answer wait(const Ticket& ticket, std::uint64_t unbegun_ns) {
    AnswerCell& cell = context_.arena.cell(ticket.cell);
    Waiter waiter(context_.wait, context_.hooks, loop_of(ticket));
    int error = waiter.until_equal(cell.sequence, ticket.sequence, &cell.parked, unbegun_ns);
    const bool lent = error != 0 && (at_service_ & bit_of(ticket.cell)) != 0;
    const bool takes_back = lent && take_over(cell, ticket.sequence);
    bool slept = waiter.slept();
    if (lent && !takes_back) {
      // Its executor, which may outlive the server, uses its memory until it answers or ends.
      LoopState& executor = context_.arena.loop_state(service_.loop);
      Waiter longer(context_.wait, context_.hooks, executor);
      error = longer.until_equal(cell.sequence, ticket.sequence, &cell.parked);
      slept = slept || longer.slept();
    }
    if (slept) add_to(counters().parks, 1);
    if (takes_back) {
      give_back(bit_of(ticket.cell));
      if (error != -ETIMEDOUT) return Answer{error, 0};  // and has no effect any more
      note_taken_back(1);
      return Answer{taken_back, 0};
    }
    if (error != 0) {
      // A late answer must not be taken for another request's.
      state().retired |= bit_of(ticket.cell);
      return Answer{error, 0};
    }
    const Answer answer{cell.result, cell.value};  // before the cell is free again (R4)
    give_back(bit_of(ticket.cell));
    return answer;
  }

  // Whether the executor of this group's cached calls kept one waiting a short time ago.
  FERRY_DEVICE bool is_held_up() const {
    DeviceRef<std::uint64_t> until(service_.ring.tickets->held_up_until_ns);
    const std::uint64_t seen = until.load(relaxed);
    if (seen == 0) return false;
    if (clock_ns(context_.hooks) < seen) return true;
    until.store(0, relaxed);  // at worst another's mark is lost, and one more call waits
    return false;
  }
  FERRY_DEVICE void hold_up() {
    DeviceRef<std::uint64_t>(service_.ring.tickets->held_up_until_ns)
        .store(clock_ns(context_.hooks) + held_up_ns, relaxed);
  }
  FERRY_DEVICE void note_taken_back(std::uint32_t count) {
    hold_up();
    add_to(counters().taken_back, count);
  }
  FERRY_DEVICE std::uint64_t patience_ns() const { return is_held_up() ? 0 : unbegun_ns_max; }

  FERRY_DEVICE bool is_short(std::uint32_t spare) const {
    return free_ == 0 || (spare != 0 && (free_ & (free_ - 1)) == 0);
  }
  FERRY_DEVICE void take(std::uint64_t bits) {
    free_ &= ~bits;
    DeviceRef<std::uint64_t> in_flight(state().in_flight);
    in_flight.store(in_flight.load(relaxed) | bits, relaxed);
  }
  FERRY_DEVICE void give_back(std::uint64_t bits) {
    free_ |= bits;
    DeviceRef<std::uint64_t> in_flight(state().in_flight);
    in_flight.store(in_flight.load(relaxed) & ~bits, relaxed);
  }
  // Takes over cells that the previous Requester left in flight and that have their answers now
  // (R4). Rare: called when cells run short.
  FERRY_DEVICE_CALL void reclaim() {
    FERRY_NO_UNROLL
    for (std::uint64_t rest = left_; rest != 0; rest &= rest - 1) {
      const std::uint32_t index = lowest_bit(rest);
      if (!done(Ticket{cell_of(index), issued_of(index)})) continue;
      left_ &= ~(std::uint64_t{1} << index);
      give_back(std::uint64_t{1} << index);
    }
  }

  // Each of the group's cells is two: one that the server answers in and, if there are services,
  // one for them. They are used in turn.
  FERRY_DEVICE bool is_answered_apart(std::uint32_t index) const {
    return ((at_service_ >> index) & 1) != 0 && context_.arena.layout.geometry.services > 0;
  }
  FERRY_DEVICE std::uint32_t cell_of(std::uint32_t index) const {
    return first_cell_ + index + (is_answered_apart(index) ? context_.arena.cell_count() : 0);
  }
  FERRY_DEVICE std::uint32_t& issued_of(std::uint32_t index) const {
    return is_answered_apart(index) ? state().issued_to_services[index] : state().issued[index];
  }
  FERRY_DEVICE std::uint64_t bit_of(std::uint32_t cell) const {
    const std::uint32_t all = context_.arena.cell_count();
    return std::uint64_t{1} << ((cell < all ? cell : cell - all) - first_cell_);
  }
  // The answering side's, whose life bounds the wait. A service of a GPU's launch lives as long as
  // its callers, unwatched: there the server's counts.
  FERRY_DEVICE LoopState& loop_of(const Ticket& ticket) const {
    const bool service = (at_service_ & bit_of(ticket.cell)) != 0 && context_.always_served;
    return context_.arena.loop_state(service ? service_.loop : server_.loop);
  }

  FERRY_DEVICE LoopPhase phase(const Way& way) const {
    return SystemRef<LoopPhase>(context_.arena.loop_state(way.loop).phase).load(seq_cst);
  }

  FERRY_DEVICE_CALL int publish(const Request* requests, std::uint32_t count, const Way& way,
                                std::uint64_t limit_ns) {
    if (count > way.ring.slot_count) return -EINVAL;
    std::uint64_t ticket = 0;
    if (const int error = claim(way, count, limit_ns, ticket); error != 0) return error;
    // R5: this look comes after the claim in the single order of seq_cst accesses.
    const LoopPhase now = phase(way);
    if (now != LoopPhase::running) {
      publish_nops(way, ticket, count);
      return now == LoopPhase::dead ? -EIO : -ESHUTDOWN;
    }
    way.ring.publish(ticket, requests, count);
    GroupCounters& mine = counters();
    add_to(mine.batches, 1);
    add_to(mine.calls, count);
    ring_doorbell(way);
    return 0;
  }

  // -ETIMEDOUT: the ring is full for longer than that.
  FERRY_DEVICE_CALL int claim(const Way& way, std::uint32_t count, std::uint64_t limit_ns,
                              std::uint64_t& ticket) {
    if (way.ring.try_claim(count, ticket)) return 0;
    Waiter waiter(context_.wait, context_.hooks, context_.arena.loop_state(way.loop));
    return waiter.until([&] { return way.ring.try_claim(count, ticket); }, limit_ns);
  }

  // R1: a claimed ticket is always published.
  FERRY_DEVICE void publish_nops(const Way& way, std::uint64_t ticket, std::uint32_t count) {
    const Request nop{};
    FERRY_NO_UNROLL
    for (std::uint32_t i = count; i-- > 0;)
      way.ring.publish(ticket + i, &nop, 1);
    ring_doorbell(way);
  }

  FERRY_DEVICE void give_back(const Request* requests, std::uint32_t count) {
    std::uint64_t bits = 0;
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      bits |= bit_of(requests[i].cell);
    give_back(bits);
  }

  // R6: publish() came first. A CUDA device cannot wake anything: there the server naps for bounded
  // times instead of parking.
  FERRY_DEVICE void ring_doorbell(const Way& way) {
#if defined(__CUDA_ARCH__)
    (void)way;
#else
    LoopState& state = context_.arena.loop_state(way.loop);
    if (SystemRef<std::uint32_t>(state.parked).load(seq_cst) == 0) return;
    LoopDoorbell& bell = context_.arena.doorbell(way.loop);
    SystemRef<std::uint32_t>(bell.count).fetch_add(1, release);
    context_.hooks.wake(&bell.count);
    add_to(counters().doorbells, 1);
#endif
  }

  const Context& context_;
  std::uint32_t group_;
  Way server_;
  Way service_;
  std::uint32_t first_cell_ = 0;
  std::uint64_t free_ = 0;        // one bit per cell
  std::uint64_t left_ = 0;        // likewise: in flight since before this object was made
  std::uint64_t at_service_ = 0;  // likewise, since they were last prepared: who answers
};

}  // namespace ferry::device
