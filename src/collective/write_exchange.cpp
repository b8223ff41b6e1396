// Rounds of a collective write. In round k every rank hands over its parts, by copying them into
// the writer's window where it can reach that, else by messages. The writer gathers them in one of
// two windows and starts writing it; that goes on while round k + 1 is exchanged into the other. A
// rank sends for round k only when its messages of round k - 2 have arrived.
#include <algorithm>
#include <array>

#include "collective/exchange.hpp"
#include "collective/messages.hpp"
#include "collective/rounds.hpp"

namespace ferry::collective {
namespace {

class Writing : private Rounds {
 public:
  Writing(Context& context, const Request& request, Plan& plan)
      : Rounds(context, request, plan, storage::Kind::write) {}

  int run() {
    for (int round = 0; round < plan_.rounds(); ++round) {
      Slot& slot = slots_[static_cast<std::size_t>(round % 2)];
      finish(slot);
      slot.gathered = plan_.contributions(round);
      const int sharing = sharers(slot.gathered);
      if (sharing > 0) context_.node_memory->open(plan_.own_writer(), round, sharing);
      choose_places(slot);
      receive(slot, round);
      send(slot, round);
      fill(round);
      slot.incoming.wait();
      if (slot.gathered.empty()) continue;
      place(slot, round);
      if (sharing > 0) await_sharers(round);
      store(slot, round);
    }
    for (Slot& slot : slots_)
      finish(slot);
    return error_;
  }

 private:
  struct Slot {
    explicit Slot(Writing& of)
        : incoming(of.context_, of.plan_.run_type()), outgoing(of.context_, of.plan_.run_type()) {}
    Messages incoming;
    Messages outgoing;
    Batch batch;
    std::span<Contribution> gathered;
  };

  // Ends what the round two before has begun.
  void finish(Slot& slot) {
    slot.outgoing.wait();
    slot.outgoing.clear();
    if (slot.gathered.empty()) return;
    Rounds::finish(slot.batch);
    for (Contribution& one : slot.gathered)
      one.clear();
    slot.gathered = {};
  }

  // Data that is one extent comes straight into the window, but never two to the same place.
  void choose_places(Slot& slot) const {
    if (!plan_.domains()) return;
    std::vector<Contribution*> candidates;
    for (Contribution& one : slot.gathered)
      if (one.is_one_extent() && one.rank != context_.team.rank() && !one.is_shared())
        candidates.push_back(&one);
    std::sort(candidates.begin(), candidates.end(),
              [](const Contribution* a, const Contribution* b) {
                return a->header.first.offset < b->header.first.offset;
              });
    std::int64_t end = 0;
    for (Contribution* one : candidates) {
      one->in_place = one->header.first.offset >= end;
      if (one->in_place) end = one->header.first.offset + one->header.bytes;
    }
  }

  void receive(Slot& slot, int round) {
    for (Contribution& one : slot.gathered) {
      one.runs.assign(static_cast<std::size_t>(one.header.run_count), one.header.first);
      if (one.rank == context_.team.rank()) continue;
      if (one.header.run_count > 1) slot.incoming.get_runs(one.rank, one.runs);
      if (one.is_shared()) continue;
      std::byte* to = one.in_place ? in_window(round, one.header.first.offset) : one.stage();
      slot.incoming.get_data(one.rank, to, one.header.bytes);
    }
  }

  void send(Slot& slot, int round) {
    for (const Part& part : plan_.parts(round)) {
      if (part.writer == plan_.own_writer()) {
        keep(slot, part);
        continue;
      }
      if (part.run_count > 1) slot.outgoing.send_runs(writer(part), runs(part));
      if (part.shared) continue;
      slot.outgoing.send_data(
          writer(part), packed(part, [&] { return slot.outgoing.memory(part.bytes); }), part.bytes);
    }
  }

  // Copies this rank's parts into the windows that it reaches.
  void fill(int round) {
    for (const Part& part : plan_.parts(round)) {
      if (!part.shared) continue;
      {
        const Stopwatch stopwatch(context_.phases.exchange_ns);
        context_.node_memory->await_turn(part.writer, round, spin());
      }
      copy_into_window(part);
      context_.node_memory->leave(part.writer, round);
      context_.counts.shared_bytes += static_cast<std::uint64_t>(part.bytes);
    }
  }
  void copy_into_window(const Part& part) {
    const Stopwatch stopwatch(context_.phases.pack_ns);
    if (request_.memory.converts()) {
      for_each_shared_extent(part, [&](std::int64_t at, std::byte* window, std::int64_t bytes) {
        request_.memory.pack(at, bytes, window);
      });
      return;
    }
    for_each_shared_piece(part, [](const std::byte* memory, std::byte* window, std::size_t bytes) {
      std::memcpy(window, memory, bytes);
    });
  }
  void await_sharers(int round) {
    const Stopwatch stopwatch(context_.phases.exchange_ns);
    context_.node_memory->await_all(plan_.own_writer(), round, spin());
  }

  // A writer's data for itself.
  void keep(Slot& slot, const Part& part) {
    for (Contribution& one : slot.gathered) {
      if (one.rank != context_.team.rank()) continue;
      one.runs = runs(part);
      if (plan_.domains()) {
        copy_into_window(part);
      } else {
        one.data = packed(part, [&] { return one.stage(); });
      }
    }
  }

  // The data of a part in one piece: in user memory, or copied to what `make` gives.
  template <class Make>
  std::byte* packed(const Part& part, Make&& make) {
    const std::int64_t at = part.stream - request_.stream;
    if (request_.memory.together(at, part.bytes)) return request_.memory.at(at);
    const Stopwatch stopwatch(context_.phases.pack_ns);
    std::byte* to = make();
    request_.memory.pack(at, part.bytes, to);
    return to;
  }

  void place(Slot& slot, int round) {
    if (!plan_.domains()) return;
    const Stopwatch stopwatch(context_.phases.pack_ns);
    for (const Contribution& one : slot.gathered) {
      if (one.in_place || one.staging == nullptr) continue;
      const std::byte* from = one.data;
      for_each_extent(one.runs, [&](const Extent& extent) {
        std::memcpy(in_window(round, extent.offset), from, static_cast<std::size_t>(extent.bytes));
        from += extent.bytes;
      });
    }
  }

  // Starts writing what the round brought, and not a byte more.
  void store(Slot& slot, int round) {
    if (error_ != 0) return;
    std::vector<Extent> extents;
    if (plan_.domains()) {
      const Stopwatch stopwatch(context_.phases.pack_ns);
      extents = covered(slot.gathered, 0);
    }
    const Stopwatch stopwatch(context_.phases.file_io_ns);
    if (plan_.domains()) {
      start_in_window(slot.batch, extents, round);
    } else {
      start_streams(slot.batch, slot.gathered);
    }
    context_.file->flush();
  }

  std::array<Slot, 2> slots_{Slot(*this), Slot(*this)};
};

}  // namespace

int write_exchanged(Context& context, const Request& request, Plan& plan) noexcept {
  return Writing(context, request, plan).run();
}

}  // namespace ferry::collective
