// Rounds of a collective read. In round k every rank has said what it wants, and a writer, which
// here reads, hands it out; meanwhile it is reading round k + 1 into the other of its two windows.
#include <algorithm>
#include <array>

#include "collective/exchange.hpp"
#include "collective/messages.hpp"
#include "collective/rounds.hpp"

namespace ferry::collective {
namespace {

// Holes up to this size are read through: that costs less than another request.
constexpr std::int64_t hole_bytes_max = 32 * 1024;

class Reading : private Rounds {
 public:
  Reading(Context& context, const Request& request, Plan& plan)
      : Rounds(context, request, plan, storage::Kind::read) {}

  int run() {
    if (plan_.rounds() > 0) ask(0);
    for (int round = 0; round < plan_.rounds(); ++round) {
      if (round + 1 < plan_.rounds()) ask(round + 1);
      hand_out(round);
    }
    for (Slot& slot : slots_)
      finish(slot);
    return error_;
  }

 private:
  struct Slot {
    explicit Slot(Reading& of)
        : asking(of.context_, of.plan_.run_type()),
          asked(of.context_, of.plan_.run_type()),
          incoming(of.context_, of.plan_.run_type()),
          outgoing(of.context_, of.plan_.run_type()) {}
    Messages asking;  // extents to writers
    Messages asked;   // extents from ranks
    Messages incoming;
    Messages outgoing;
    Batch batch;
    std::span<Contribution> wanted;
    int round = 0;    // that `wanted` belongs to
    int sharing = 0;  // ranks that take their data out of the window themselves
  };
  Slot& slot_of(int round) { return slots_[static_cast<std::size_t>(round % 2)]; }

  // The window may be used again when its data has arrived.
  void finish(Slot& slot) {
    slot.outgoing.wait();
    slot.outgoing.clear();
    if (slot.sharing > 0) {
      const Stopwatch stopwatch(context_.phases.exchange_ns);
      context_.node_memory->await_all(plan_.own_writer(), slot.round, spin());
      slot.sharing = 0;
    }
    for (Contribution& one : slot.wanted)
      one.clear();
    slot.wanted = {};
  }

  // Tells the writers what this rank wants; a writer starts reading.
  void ask(int round) {
    Slot& slot = slot_of(round);
    finish(slot);
    for (const Part& part : plan_.parts(round))
      if (part.run_count > 1 && part.writer != plan_.own_writer())
        slot.asking.send_runs(writer(part), runs(part));
    slot.wanted = plan_.contributions(round);
    if (slot.wanted.empty()) return;
    for (Contribution& one : slot.wanted) {
      one.runs.assign(static_cast<std::size_t>(one.header.run_count), one.header.first);
      if (one.header.run_count == 1) continue;
      if (one.rank == context_.team.rank()) {
        one.runs = runs(own_part(round));
      } else {
        slot.asked.get_runs(one.rank, one.runs);
      }
    }
    slot.asked.wait();
    fetch(slot, round);
  }

  void fetch(Slot& slot, int round) {
    std::vector<Extent> extents;
    if (plan_.domains()) {
      const Stopwatch stopwatch(context_.phases.pack_ns);
      extents = covered(slot.wanted, hole_bytes_max);
    } else {
      for (Contribution& one : slot.wanted)
        one.data = place_for(one, round);
    }
    if (error_ != 0) return;
    const Stopwatch stopwatch(context_.phases.file_io_ns);
    if (plan_.domains()) {
      start_in_window(slot.batch, extents, round);
    } else {
      start_streams(slot.batch, slot.wanted);
    }
    context_.file->flush();
  }

  // Where a contribution's stream is put together: in this rank's own memory where that lies
  // together, else in a staging area.
  std::byte* place_for(Contribution& one, int round) {
    if (one.rank == context_.team.rank()) {
      const Part& part = own_part(round);
      const std::int64_t at = part.stream - request_.stream;
      if (request_.memory.together(at, part.bytes)) return request_.memory.at(at);
    }
    return one.stage();
  }

  void hand_out(int round) {
    Slot& slot = slot_of(round);
    for (const Part& part : plan_.parts(round)) {
      if (part.writer == plan_.own_writer() || part.shared) continue;
      const std::int64_t at = part.stream - request_.stream;
      const bool together = request_.memory.together(at, part.bytes);
      std::byte* to = together ? request_.memory.at(at) : slot.incoming.memory(part.bytes);
      slot.incoming.get_data(writer(part), to, part.bytes);
      if (!together) unpacked_.push_back({&part, to});
    }
    if (!slot.wanted.empty()) serve(slot, round);
    take(round);
    slot.incoming.wait();
    slot.asking.wait();
    const Stopwatch stopwatch(context_.phases.pack_ns);
    for (const auto& [part, from] : unpacked_)
      request_.memory.unpack(part->stream - request_.stream, part->bytes, from);
    unpacked_.clear();
    slot.incoming.clear();
    slot.asking.clear();
  }

  void serve(Slot& slot, int round) {
    Rounds::finish(slot.batch);
    slot.round = round;
    slot.sharing = sharers(slot.wanted);
    if (slot.sharing > 0) context_.node_memory->open(plan_.own_writer(), round, slot.sharing);
    for (Contribution& one : slot.wanted) {
      if (one.is_shared()) continue;
      const bool own = one.rank == context_.team.rank();
      if (plan_.domains() && own) {
        copy_out_of_window(own_part(round));
        continue;
      }
      if (plan_.domains()) {
        if (one.is_one_extent()) {
          slot.outgoing.send_data(one.rank, in_window(round, one.header.first.offset),
                                  one.header.bytes);
          continue;
        }
        gather(one, round);
      }
      if (!own) {
        slot.outgoing.send_data(one.rank, one.data, one.header.bytes);
      } else if (one.staging != nullptr) {
        const Stopwatch stopwatch(context_.phases.pack_ns);
        const Part& part = own_part(round);
        request_.memory.unpack(part.stream - request_.stream, part.bytes, one.data);
      }
    }
  }

  // Copies what one rank wants out of the window.
  void gather(Contribution& one, int round) {
    const Stopwatch stopwatch(context_.phases.pack_ns);
    std::byte* to = one.stage();
    for_each_extent(one.runs, [&](const Extent& extent) {
      std::memcpy(to, in_window(round, extent.offset), static_cast<std::size_t>(extent.bytes));
      to += extent.bytes;
    });
  }

  // Copies this rank's parts out of the windows that it reaches.
  void take(int round) {
    for (const Part& part : plan_.parts(round)) {
      if (!part.shared) continue;
      {
        const Stopwatch stopwatch(context_.phases.exchange_ns);
        context_.node_memory->await_turn(part.writer, round, spin());
      }
      copy_out_of_window(part);
      context_.node_memory->leave(part.writer, round);
      context_.counts.shared_bytes += static_cast<std::uint64_t>(part.bytes);
    }
  }
  void copy_out_of_window(const Part& part) {
    const Stopwatch stopwatch(context_.phases.pack_ns);
    if (request_.memory.converts()) {
      for_each_shared_extent(part, [&](std::int64_t at, std::byte* window, std::int64_t bytes) {
        request_.memory.unpack(at, bytes, window);
      });
      return;
    }
    for_each_shared_piece(part, [](std::byte* memory, const std::byte* window, std::size_t bytes) {
      std::memcpy(memory, window, bytes);
    });
  }

  // A writer has at most one part of its own in a round.
  const Part& own_part(int round) {
    const auto parts = plan_.parts(round);
    return *std::find_if(parts.begin(), parts.end(),
                         [&](const Part& part) { return part.writer == plan_.own_writer(); });
  }

  struct Unpacked {
    const Part* part;
    const std::byte* from;
  };

  std::array<Slot, 2> slots_{Slot(*this), Slot(*this)};
  std::vector<Unpacked> unpacked_;
};

}  // namespace

int read_exchanged(Context& context, const Request& request, Plan& plan) noexcept {
  return Reading(context, request, plan).run();
}

}  // namespace ferry::collective
