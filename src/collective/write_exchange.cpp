// Rounds of a collective write. In round k every rank copies its parts into the window of the
// writer, or of its relay on this node, if reachable, else sends messages. A relay sends the writer
// the contents of its window in one message. The writer collects data in one of two windows and
// starts writing it, while round k + 1 fills the other. A rank sends for round k only after its
// messages of round k - 2 have arrived.
#include <algorithm>
#include <array>

#include "collective/rounds.hpp"

namespace ferry::collective {
namespace {

class Writing : private Rounds {
 public:
  Writing(MethodContext& context, const RankRequest& request, ExchangePlan& plan)
      : Rounds(context, request, plan, storage::Kind::write) {}

  int run() {
    for (int round = 0; round < plan_.rounds(); ++round) {
      Slot& slot = slots_[static_cast<std::size_t>(round % 2)];
      finish(slot);
      slot.gathered = plan_.contributions(round);
      const int sharing = sharers(slot.gathered);
      if (sharing > 0) context_.node_memory->open(plan_.own_writer(), round, sharing);
      open_relays(round);
      choose_places(slot);
      receive(slot, round);
      send(slot, round);
      copy_shared_parts(round);
      relay(slot, round);
      slot.incoming.wait();
      if (slot.gathered.empty()) continue;
      unpack_runs(slot);
      place(slot, round);
      if (sharing > 0) await_sharers(plan_.own_writer(), round);
      store(slot, round);
    }
    for (Slot& slot : slots_)
      finish(slot);
    return error_;
  }

 private:
  struct Slot {
    explicit Slot(const Writing& writing) : of(writing) {}
    const Writing& of;
    Messages incoming = of.messages();
    Messages relayed = of.messages();  // extents from this node's ranks
    Messages outgoing = of.messages();
    Batch batch;
    std::span<Contribution> gathered;
  };

  // Completes the round two before.
  void finish(Slot& slot) {
    slot.outgoing.wait();
    slot.outgoing.clear();
    if (slot.gathered.empty()) return;
    Rounds::finish(slot.batch);
    for (Contribution& one : slot.gathered)
      one.clear();
    slot.gathered = {};
  }

  // Single extents arrive straight in the window, but never two at the same place.
  void choose_places(Slot& slot) const {
    if (!plan_.domains()) return;
    std::vector<Contribution*> candidates;
    for (Contribution& one : slot.gathered)
      if (one.is_one_extent() && one.rank != context_.team.rank() &&
          one.header.way == Delivery::message)
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
    get_runs(slot.gathered, round, slot.incoming);
    for (const Relay& relay : plan_.relays(round))
      get_runs(relay.contributions, round, slot.relayed);
    for (Contribution& one : slot.gathered) {
      if (one.is_merged()) {
        const std::int64_t runs_max = packet_runs(one.header.run_count, one.header.bytes);
        slot.incoming.get_packet(one.rank, one.writer(), one.stage_runs(runs_max), runs_max);
        continue;
      }
      if (one.rank == context_.team.rank() || one.is_shared()) continue;
      std::byte* to = one.in_place ? in_window(round, one.header.first.offset) : one.stage();
      slot.incoming.get_data(one.rank, one.writer(), to, one.header.bytes);
    }
  }

  void send(Slot& slot, int round) {
    for (const RoundPart& part : plan_.parts(round)) {
      if (is_own(part)) {
        keep(slot, part);
        continue;
      }
      if (part.run_count > 1) slot.outgoing.send_runs(part.owner, part.writer, runs(part));
      if (part.shared) continue;
      slot.outgoing.send_data(part.owner, part.writer,
                              packed(part, [&] { return slot.outgoing.memory(part.bytes); }),
                              part.bytes);
    }
  }

  // A writer's data for itself, or a relay's for its writer.
  void keep(Slot& slot, const RoundPart& part) {
    if (plan_.domains()) return copy_part(part);
    for (Contribution& one : slot.gathered)
      if (one.rank == context_.team.rank()) one.data = packed(part, [&] { return one.stage(); });
  }

  // Sends the writers the data of this node's ranks.
  void relay(Slot& slot, int round) {
    if (plan_.relays(round).empty()) return;
    slot.relayed.wait();
    for (const Relay& relay : plan_.relays(round)) {
      if (sharers(relay.contributions) > 0) await_sharers(relay.writer, round);
      send_of_node(slot, relay);
      for (Contribution& one : relay.contributions)
        one.clear();
    }
  }
  void send_of_node(Slot& slot, const Relay& relay) {
    const Stopwatch stopwatch(context_.phases.pack_ns);
    const int to = rank_of(relay.writer);
    const std::vector<Run> runs = runs_of_relay(relay);
    const std::int64_t bytes = bytes_of(runs);
    if (relay.run) {
      std::byte* data = in_window(relay.writer, relay.round, relay.run->offset);
      if (!relay.run->is_extent()) {
        data = slot.outgoing.memory(bytes);
        gather(runs, relay.writer, relay.round, data);
      }
      slot.outgoing.send_data(to, relay.writer, data, bytes);
      return;
    }
    const std::vector<Run> list = numbered(runs);
    const std::int64_t units = packet_runs(static_cast<std::int64_t>(runs.size()), bytes);
    std::byte* packet = slot.outgoing.memory(units * static_cast<std::int64_t>(sizeof(Run)));
    std::memcpy(packet, list.data(), list.size() * sizeof(Run));
    gather(runs, relay.writer, relay.round, packet + list.size() * sizeof(Run));
    slot.outgoing.send_packet(to, relay.writer, reinterpret_cast<const Run*>(packet), units);
  }
  // Takes the runs of merged contributions from their messages.
  static void unpack_runs(Slot& slot) {
    for (Contribution& one : slot.gathered) {
      if (!one.is_merged()) continue;
      const auto* list = reinterpret_cast<const Run*>(one.staging.get());
      one.set_merged({list + 1, list + 1 + list->count});
      one.data = one.staging.get() + (one.runs.size() + 1) * sizeof(Run);
    }
  }

  // The data of a part in one piece: in user memory, or copied into memory from `make`.
  template <class Make>
  std::byte* packed(const RoundPart& part, Make&& make) {
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
      scatter(one.runs, plan_.own_writer(), round, one.data);
    }
  }

  // Starts writing exactly the bytes of the round.
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

int write_exchanged(MethodContext& context, const RankRequest& request,
                    ExchangePlan& plan) noexcept {
  return carried_out<Writing>(context, request, plan);
}

}  // namespace ferry::collective
