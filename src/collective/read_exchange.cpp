// Rounds of a collective read. In round k every rank has sent its requests, and the writer (here
// the reader) sends the data; a node's relay requests and distributes for all its ranks. Meanwhile
// the writer reads round k + 1 into the other of its two windows.
#include <array>

#include "collective/rounds.hpp"

namespace ferry::collective {
namespace {

// Reads through holes up to this size: that costs less than another request.
constexpr std::int64_t hole_bytes_max = 32 * 1024;

class Reading : private Rounds {
 public:
  Reading(MethodContext& context, const RankRequest& request, ExchangePlan& plan)
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
    explicit Slot(const Reading& reading) : of(reading) {}
    const Reading& of;
    Messages asking = of.messages();   // extents to writers
    Messages asked = of.messages();    // extents from ranks
    Messages relayed = of.messages();  // from this node's ranks that this rank relays
    Messages incoming = of.messages();
    Messages from_writers = of.messages();  // to this rank as a relay
    Messages outgoing = of.messages();
    Batch batch;
    std::span<Contribution> wanted;
    std::span<Relay> relays;
    std::vector<std::vector<Run>> relay_runs;  // for each: what the writer is asked for
    int round = 0;                             // their owners
    int sharing = 0;  // ranks that copy their data out of the window themselves
  };
  Slot& slot_of(int round) { return slots_[static_cast<std::size_t>(round % 2)]; }

  // The window may be reused when its data has arrived.
  void finish(Slot& slot) {
    slot.outgoing.wait();
    slot.outgoing.clear();
    if (slot.sharing > 0) await_sharers(plan_.own_writer(), slot.round);
    slot.sharing = 0;
    for (const Relay& relay : slot.relays) {
      if (sharers(relay.contributions) > 0) await_sharers(relay.writer, slot.round);
      for (Contribution& one : relay.contributions)
        one.clear();
    }
    slot.relays = {};
    for (Contribution& one : slot.wanted)
      one.clear();
    slot.wanted = {};
  }

  // Sends this rank's requests to the writers; a writer starts reading.
  void ask(int round) {
    Slot& slot = slot_of(round);
    finish(slot);
    slot.round = round;
    for (const RoundPart& part : plan_.parts(round))
      if (part.run_count > 1 && !is_own(part))
        slot.asking.send_runs(part.owner, part.writer, runs(part));
    slot.wanted = plan_.contributions(round);
    get_runs(slot.wanted, round, slot.asked);
    for (Contribution& one : slot.wanted) {
      if (!one.is_merged()) continue;
      one.runs.resize(static_cast<std::size_t>(one.header.run_count) + 1);
      slot.asked.get_runs(one.rank, one.writer(), one.runs);
    }
    ask_for_node(slot, round);
    if (slot.wanted.empty()) return;
    slot.asked.wait();
    for (Contribution& one : slot.wanted)
      if (one.is_merged())
        one.set_merged({one.runs.begin() + 1, one.runs.begin() + 1 + one.runs.front().count});
    fetch(slot, round);
  }

  // A relay requests what its node's ranks want.
  void ask_for_node(Slot& slot, int round) {
    slot.relays = plan_.relays(round);
    slot.relay_runs.clear();
    for (const Relay& relay : slot.relays)
      get_runs(relay.contributions, round, slot.relayed);
    slot.relayed.wait();
    for (const Relay& relay : slot.relays) {
      slot.relay_runs.push_back(runs_of_relay(relay));
      if (relay.run) continue;  // known to the writer
      slot.asking.send_runs(rank_of(relay.writer), relay.writer, numbered(slot.relay_runs.back()));
    }
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

  // Where a contribution's stream is assembled: in this rank's own memory if contiguous, else in
  // staging memory.
  std::byte* place_for(Contribution& one, int round) {
    if (one.rank == context_.team.rank()) {
      const RoundPart& part = own_part(one.writer(), round);
      const std::int64_t at = part.stream - request_.stream;
      if (request_.memory.together(at, part.bytes)) return request_.memory.at(at);
    }
    return one.stage();
  }

  void hand_out(int round) {
    Slot& slot = slot_of(round);
    for (const RoundPart& part : plan_.parts(round)) {
      if (is_own(part) || part.shared) continue;
      const std::int64_t at = part.stream - request_.stream;
      const bool together = request_.memory.together(at, part.bytes);
      std::byte* to = together ? request_.memory.at(at) : slot.incoming.memory(part.bytes);
      slot.incoming.get_data(part.owner, part.writer, to, part.bytes);
      if (!together) unpacked_.push_back({&part, to});
    }
    std::vector<std::byte*> relayed = get_for_node(slot);
    if (!slot.wanted.empty()) serve(slot, round);
    hand_out_to_node(slot, relayed);
    copy_shared_parts(round);
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
    slot.sharing = sharers(slot.wanted);
    if (slot.sharing > 0) context_.node_memory->open(plan_.own_writer(), round, slot.sharing);
    for (Contribution& one : slot.wanted) {
      if (one.is_shared()) continue;
      const bool own = one.rank == context_.team.rank();
      if (plan_.domains() && own) {
        copy_part(own_part(one.writer(), round));
        continue;
      }
      if (plan_.domains()) {
        if (one.is_one_extent()) {
          slot.outgoing.send_data(one.rank, one.writer(), in_window(round, one.header.first.offset),
                                  one.header.bytes);
          continue;
        }
        const Stopwatch stopwatch(context_.phases.pack_ns);
        gather(one.runs, one.writer(), round, one.stage());
      }
      if (!own) {
        slot.outgoing.send_data(one.rank, one.writer(), one.data, one.header.bytes);
      } else if (one.staging != nullptr) {
        const Stopwatch stopwatch(context_.phases.pack_ns);
        const RoundPart& part = own_part(one.writer(), round);
        request_.memory.unpack(part.stream - request_.stream, part.bytes, one.data);
      }
    }
  }

  // A relay receives its data: single extents straight into its window.
  std::vector<std::byte*> get_for_node(Slot& slot) {
    std::vector<std::byte*> data;
    for (std::size_t i = 0; i < slot.relays.size(); ++i) {
      const int writer = slot.relays[i].writer;
      const std::vector<Run>& list = slot.relay_runs[i];
      const bool is_extent = list.size() == 1 && list.front().is_extent();
      data.push_back(is_extent ? in_window(writer, slot.round, list.front().offset)
                               : slot.from_writers.memory(bytes_of(list)));
      slot.from_writers.get_data(rank_of(writer), writer, data.back(), bytes_of(list));
    }
    return data;
  }
  void hand_out_to_node(Slot& slot, const std::vector<std::byte*>& data) {
    if (slot.relays.empty()) return;
    slot.from_writers.wait();
    for (std::size_t i = 0; i < slot.relays.size(); ++i) {
      const std::vector<Run>& list = slot.relay_runs[i];
      if (list.size() == 1 && list.front().is_extent()) continue;
      const Stopwatch stopwatch(context_.phases.pack_ns);
      scatter(list, slot.relays[i].writer, slot.round, data[i]);
    }
    slot.from_writers.clear();
    open_relays(slot.round);
    for (const RoundPart& part : plan_.parts(slot.round))
      if (is_own(part) && part.writer != plan_.own_writer()) copy_part(part);
  }

  struct Unpacked {
    const RoundPart* part;
    const std::byte* from;
  };

  std::array<Slot, 2> slots_{Slot(*this), Slot(*this)};
  std::vector<Unpacked> unpacked_;
};

}  // namespace

int read_exchanged(MethodContext& context, const RankRequest& request,
                   ExchangePlan& plan) noexcept {
  return carried_out<Reading>(context, request, plan);
}

}  // namespace ferry::collective
