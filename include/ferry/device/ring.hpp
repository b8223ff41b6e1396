// The request ring and the completion cell: how a device asks and the server answers.
//
// Many producers (groups of device threads), one consumer (the server loop that owns the ring).
// Requests are 64 bytes and describe a transfer; payload never passes through here. The answer goes
// to a cell owned by the requester, in any order.
//
// Each word has one writer (no read-modify-write ever crosses the bus between device and server):
//
//   word                   written by   read by     meaning
//   RingTickets.tail       device       server(*)   next free ticket
//   RingTickets.known_head device       device      a head seen earlier, to spare the bus
//   RingHead.head          server       device      requests copied out so far
//   Request.commit         device       server      lap number + 1 once the slot holds a request
//   AnswerCell.sequence    server       device      the sequence number last answered
//   AnswerCell.result      server       device      result and value, valid once sequence says so
//   AnswerCell.parked      device       server      a waiter may be asleep on sequence
//   AnswerCell.unbegun     device       device      the cached call that nobody has begun, or 0
//   LoopState.*            server       device      running/stopping/stopped/dead, parked
//   LoopDoorbell.count     device, and the server's own helpers; never a CUDA device
//   (in the rings of a device's own services, "server" is the service that takes the requests. An
//   executor of cached calls counts as device: it is a service, or a loop in a program of the
//   `cpu` device)
//   (*) only while stopping, to learn how many tickets are still to come.
//
// Invariants (checked by verification/ring.pml, tests/device/ring_test.cpp and TSan):
//   R1  A ticket is claimed once, and only when its slot is free; it is published immediately: as a
//       request, or as a NOP if the loop is stopping. No wait is in between.
//   R2  The server takes tickets in order, each exactly once: no request is lost or doubled.
//   R3  A slot is written only after the request one lap earlier was copied out (ticket - head <
//       slots), so nothing is overwritten before it is read.
//   R4  A cell is reused only after its last answer: the same group issues its next sequence
//       number, after waiting for the last one. If it did not wait (its program ended with requests
//       in flight), the group's next Requester leaves the cell alone until that answer arrives. A
//       call that was taken back (R9) has none.
//   R5  A request published while the loop ran is answered. Stopping is announced first (seq_cst),
//       then the tail is read (seq_cst): a claimant either sees `stopping` after its claim, or its
//       ticket is below that tail and is waited for and answered.
//   R6  No wake-up is lost. Sleeper: parked = 1, then look again. Waker: publish, then look at
//       parked. All four accesses are seq_cst, so at least one side sees the other.
//   R7  Progress needs no help: claimants do not wait for each other, space only needs the server,
//       and every wait of a device thread also watches the server's phase.
//   R8  Every death is announced. A loop reports its own fault as `dead`; the server's watchdog
//       declares a stuck one dead, by the host's clock without the time in which the host did not
//       run. Both sides belong to one process: threads of the `cpu` device end with it, and the
//       driver ends the kernels of an ended process. So a server that will never answer has either
//       said so or ended its callers, and a merely silent one is waited for. A device in another
//       process would need the operating system's report of its peer's death (a pidfd); no arena is
//       shared so.
//   R9  A cached call is begun by its executor or taken back by its caller, never both: by the one
//       that first changes AnswerCell.unbegun from the call's sequence number to 0. The other
//       leaves the call, its memory and its cell alone. So a caller waits for the calls before its
//       own only as long as it likes, and then executes it on its own core. A caller that the
//       server's end tells to fail takes its call back first, or waits for the executor that has
//       begun it: a call that failed has no effect afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::device {

enum class Opcode : std::uint8_t {
  nop = 0,  // an abandoned ticket; answered only when it names a sequence
  open,
  close,
  read,
  write,
  read_vector,   // `buffer` names an array of Extent
  write_vector,  // likewise
  sync,
  sync_data,
  truncate,
  file_status,
  path_status,
  unlink,
  // Transfers through the page cache, for executors on behalf of their callers (placement
  // `service`, service.hpp). Last, and in this order.
  cached_read,
  cached_write,
  cached_read_vector,
  cached_write_vector,
};

FERRY_DEVICE constexpr bool is_cached_call(Opcode opcode) {
  return opcode >= Opcode::cached_read && opcode <= Opcode::cached_write_vector;
}
// The cached call equivalent to a plain transfer.
FERRY_DEVICE constexpr Opcode cached_call(Opcode transfer) {
  return static_cast<Opcode>(static_cast<int>(transfer) - static_cast<int>(Opcode::read) +
                             static_cast<int>(Opcode::cached_read));
}
static_assert(cached_call(Opcode::write) == Opcode::cached_write);
static_assert(cached_call(Opcode::read_vector) == Opcode::cached_read_vector);
static_assert(cached_call(Opcode::write_vector) == Opcode::cached_write_vector);

// The direction of a transfer: read from a file, or written to it.
enum class TransferDirection : std::uint8_t { read, write };

FERRY_DEVICE constexpr TransferDirection direction_of(Opcode transfer) {
  const bool reads = transfer == Opcode::read || transfer == Opcode::read_vector ||
                     transfer == Opcode::cached_read || transfer == Opcode::cached_read_vector;
  return reads ? TransferDirection::read : TransferDirection::write;
}
FERRY_DEVICE constexpr bool is_vector(Opcode transfer) {
  return transfer == Opcode::read_vector || transfer == Opcode::write_vector ||
         transfer == Opcode::cached_read_vector || transfer == Opcode::cached_write_vector;
}

inline constexpr std::uint8_t flag_append = 1;  // write at the end; `value` is the new position
// Write: a sync of these bytes follows, so the medium may start already.
inline constexpr std::uint8_t flag_sync_follows = 2;
// Write: more bytes of the same write follow, which must be one. The server keeps these, answers 0,
// and writes all of them with the last piece, which lacks this flag. One at a time per group.
inline constexpr std::uint8_t flag_more = 4;

// One request. Offsets only: device and server may map the arena at different addresses.
struct alignas(cache_line_bytes) Request {
  std::uint32_t commit;    // lap + 1; last to be written
  Opcode opcode;           // what to do
  std::uint8_t flags;      // flag_append, flag_sync_follows, flag_more
  std::uint16_t reserved;  // zero
  std::uint32_t cell;      // index of the cell to answer in
  std::uint32_t sequence;  // what to write there; 0 means: no answer wanted
  std::int32_t file;       // handle from open
  std::uint32_t mode;      // permission bits of a created file
  std::int64_t offset;     // in the file, bytes; the new size for truncate
  std::uint64_t buffer;    // offset in the arena, bytes
  std::uint64_t length;    // bytes; for vectors the number of extents
  std::int64_t argument;   // open flags
  std::uint64_t kept;      // of a write in pieces: bytes that the server keeps of it already
};
static_assert(sizeof(Request) == in_lines(64));
#if !defined(__CUDACC_RTC__)  // whose offsetof is no constant expression
static_assert(offsetof(Request, commit) == 0);
static_assert(offsetof(Request, cell) == 8);
static_assert(offsetof(Request, offset) == 24);
static_assert(offsetof(Request, argument) == 48);
#endif

// One piece of a vectored transfer, in the arena.
struct BufferExtent {
  std::uint64_t buffer;  // offset in the arena, bytes
  std::uint64_t length;  // bytes
};
static_assert(sizeof(BufferExtent) == 16);

// The place of an answer. One cache line: the server's store brings everything the waiter reads.
struct alignas(cache_line_bytes) AnswerCell {
  std::uint32_t sequence;  // server
  std::uint32_t unbegun;   // R9: a cached call's sequence number until it is begun or taken back
  std::int64_t result;     // server: bytes or handle, or a negative errno
  std::uint64_t value;     // server: a second result, of appends only (the new position)
  std::uint32_t parked;    // device, and only around a sleep: the line stays with the server
  std::uint32_t padding[9];
};
static_assert(sizeof(AnswerCell) == in_lines(64));
#if !defined(__CUDACC_RTC__)
static_assert(offsetof(AnswerCell, parked) == 24);
#endif

struct alignas(cache_line_bytes) RingTickets {
  std::uint64_t tail;
  std::uint64_t known_head;
  // Device only: until this time, by the device's clock, callers execute cached calls themselves,
  // as the executor behind this ring keeps them waiting. 0 if it does not.
  std::uint64_t held_up_until_ns;
};
struct alignas(cache_line_bytes) RingHead {
  std::uint64_t head;
};
static_assert(sizeof(RingTickets) == in_lines(64) && sizeof(RingHead) == in_lines(64));

enum class LoopPhase : std::uint32_t { running = 0, stopping, stopped, dead };

// One per server loop. The server's words and the doorbell are on separate cache lines.
struct alignas(cache_line_bytes) LoopState {
  LoopPhase phase;
  std::uint32_t parked;  // a doorbell is wanted
};
struct alignas(cache_line_bytes) LoopDoorbell {
  std::uint32_t count;  // futex word
};
static_assert(sizeof(LoopState) == in_lines(64) && sizeof(LoopDoorbell) == in_lines(64));

// A view of one ring. Cheap to copy; both sides build their own from the geometry.
struct RequestRing {
  RingTickets* tickets;
  RingHead* head;
  Request* slots;
  std::uint32_t slot_count;  // a power of two
  std::uint32_t slot_shift;  // log2(slot_count)

  FERRY_DEVICE Request& slot(std::uint64_t ticket) const {
    return slots[ticket & (slot_count - 1)];
  }
  // The value of `commit` that says "this lap's request is here". Laps have 32 bits: only a slot
  // 2^32 laps old could be mistaken for a new one.
  FERRY_DEVICE std::uint32_t lap(std::uint64_t ticket) const {
    return static_cast<std::uint32_t>(ticket >> slot_shift) + 1;
  }

  // ---- device side -----------------------------------------------------------------------------

  // Whether the slots of `count` tickets from `ticket` may be written (R3).
  FERRY_DEVICE bool has_room(std::uint64_t ticket, std::uint32_t count) const {
    const std::uint64_t last = ticket + count;
    // Acquire: known_head was published by a thread that had acquired the server's head, so the
    // server's copies out of those slots happened before our writes into them.
    DeviceRef<std::uint64_t> known(tickets->known_head);
    if (last - known.load(acquire) <= slot_count) return true;
    const std::uint64_t seen = SystemRef<std::uint64_t>(head->head).load(acquire);
    known.store(seen, release);  // a race may move it backwards: that only costs a second look
    return last - seen <= slot_count;
  }

  // Takes `count` (<= slot_count) consecutive tickets whose slots are free; `ticket` becomes the
  // first. Returns false if the ring is full now. Never waits while holding a ticket: a claimant
  // that gave up would leave a hole for which the server waits for ever.
  FERRY_DEVICE bool try_claim(std::uint32_t count, std::uint64_t& ticket) const {
    // System scope, although only devices write it: the server reads it while stopping.
    SystemRef<std::uint64_t> tail(tickets->tail);
    std::uint64_t next = tail.load(relaxed);
    for (;;) {
      if (!has_room(next, count)) {
        const std::uint64_t again = tail.load(relaxed);
        if (again == next) return false;
        next = again;  // others were faster, and the look at the room was out of date
      } else if (tail.compare_exchange_weak(next, next + count, seq_cst, relaxed)) {  // R5
        ticket = next;
        return true;
      }
    }
  }

  // Fills and commits the slots of `count` tickets. The first slot is committed last and seq_cst
  // (R6), so that the server finds the whole batch at once and one look at `parked` is enough.
  FERRY_DEVICE void publish(std::uint64_t ticket, const Request* requests,
                            std::uint32_t count) const {
    for (std::uint32_t i = count; i-- > 0;) {
      Request& target = slot(ticket + i);
      const Request& source = requests[i];
      SystemRef<std::uint32_t> commit(target.commit);
      copy_body(target, source);
      if (i > 0) {
        commit.store(lap(ticket + i), relaxed);  // the first slot's commit covers it
      } else {
        commit.store(lap(ticket), seq_cst);
      }
    }
  }

  // Everything but the commit word.
  FERRY_DEVICE static void copy_body(Request& target, const Request& source) {
    target.opcode = source.opcode;
    target.flags = source.flags;
    target.reserved = source.reserved;
    target.cell = source.cell;
    target.sequence = source.sequence;
    target.file = source.file;
    target.mode = source.mode;
    target.offset = source.offset;
    target.buffer = source.buffer;
    target.length = source.length;
    target.argument = source.argument;
    target.kept = source.kept;
  }
};

// The server's end of a ring (or a service's): one thread, with its cursor in private memory.
class RingConsumer {
 public:
  RingConsumer() = default;
  FERRY_DEVICE explicit RingConsumer(RequestRing ring) : ring_(ring) {}

  // Continues where the ring's last consumer ended.
  FERRY_DEVICE void resume() { next_ = SystemRef<std::uint64_t>(ring_.head->head).load(acquire); }

  // Copies the next request out and frees its slot. Returns false if there is none yet.
  FERRY_DEVICE bool take(Request& out) {
    Request& slot = ring_.slot(next_);
    SystemRef<std::uint32_t> commit(slot.commit);
    // Acquire pairs with the commit stores in publish(): the body is complete.
    if (commit.load(acquire) != ring_.lap(next_)) return false;
    RequestRing::copy_body(out, slot);
    ++next_;
    // Release: the copy above happens before any write of the next lap (R3).
    SystemRef<std::uint64_t>(ring_.head->head).store(next_, release);
    return true;
  }

  // Whether a request is there; seq_cst, for the look after parked = 1 (R6).
  FERRY_DEVICE bool ready() const {
    return SystemRef<std::uint32_t>(ring_.slot(next_).commit).load(seq_cst) == ring_.lap(next_);
  }

  // How many claimed tickets were not taken. Meaningful once `stopping` was announced (R5).
  FERRY_DEVICE std::uint64_t outstanding() const {
    return outstanding(SystemRef<std::uint64_t>(ring_.tickets->tail).load(seq_cst));
  }
  // Likewise for a server that cannot load the ring's tail and reads it in another way.
  const std::uint64_t* tail() const { return &ring_.tickets->tail; }
  FERRY_DEVICE std::uint64_t outstanding(std::uint64_t tail) const { return tail - next_; }

 private:
  RequestRing ring_{};
  std::uint64_t next_ = 0;
};

FERRY_DEVICE inline bool is_unbegun(AnswerCell& cell, std::uint32_t sequence) {
  return SystemRef<std::uint32_t>(cell.unbegun).load(relaxed) == sequence;
}
// R9: whether the cached call now is the caller's of this function, to execute or to refuse.
FERRY_DEVICE inline bool take_over(AnswerCell& cell, std::uint32_t sequence) {
  return SystemRef<std::uint32_t>(cell.unbegun)
      .compare_exchange_strong(sequence, 0, acq_rel, relaxed);
}

// The server's answer; `value` matters for requests with flag_append. Returns whether a waiter may
// be asleep on `cell.sequence` and must be woken (R6). Do not touch the cell afterwards.
FERRY_DEVICE inline bool answer(AnswerCell& cell, std::uint32_t sequence, std::int64_t result,
                                std::uint64_t value) {
  cell.result = result;
  if (value != 0) cell.value = value;  // one store fewer to a polled cache line
  SystemRef<std::uint32_t>(cell.sequence).store(sequence, seq_cst);
  return SystemRef<std::uint32_t>(cell.parked).load(seq_cst) != 0;
}

}  // namespace ferry::device
