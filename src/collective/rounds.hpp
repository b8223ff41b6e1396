// Shared by the rounds of collective writes and reads: the messages, the windows, and starting and
// ending a round's transfers between them and the file.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collective/plan.hpp"

namespace ferry::collective {

// The messages of one round, with the memory they need until they arrive.
class Messages {
 public:
  Messages(MethodContext& context, MPI_Datatype run_type)
      : context_(context), run_type_(run_type) {}
  ~Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // `writer`: index of the data's writer. At most the requested bytes arrive.
  void send_data(int rank, int writer, const std::byte* data, std::int64_t bytes) {
    send(rank, data_tag(writer), data, bytes, MPI_BYTE, 1);
  }
  void get_data(int rank, int writer, std::byte* data, std::int64_t bytes) {
    get(rank, data_tag(writer), data, bytes, MPI_BYTE);
  }
  // Keeps the runs until they are sent.
  void send_runs(int rank, int writer, std::vector<Run> runs) {
    const auto& kept = runs_.emplace_back(std::move(runs));
    send(rank, runs_tag(writer), kept.data(), std::ssize(kept), run_type_, sizeof(Run));
  }
  void get_runs(int rank, int writer, std::vector<Run>& runs) {
    get(rank, runs_tag(writer), runs.data(), std::ssize(runs), run_type_);
  }
  // A relay's runs and data: see Rounds::packet_runs().
  void send_packet(int rank, int writer, const Run* packet, std::int64_t runs) {
    send(rank, data_tag(writer), packet, runs, run_type_, sizeof(Run));
  }
  void get_packet(int rank, int writer, Run* packet, std::int64_t runs_max) {
    get(rank, data_tag(writer), packet, runs_max, run_type_);
  }
  // Memory that lasts until the messages have arrived.
  std::byte* memory(std::int64_t bytes) {
    memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes)));
    return memory_.back().get();
  }

  void wait() {
    const Stopwatch stopwatch(context_.phases.exchange_ns);
    context_.team.wait_all(requests_);
    requests_.clear();
  }
  // After wait(), once the received data has been used.
  void clear() {
    memory_.clear();
    runs_.clear();
  }

 private:
  // A rank may send another rank data for several writers in a round.
  static int data_tag(int writer) { return 2 * writer; }
  static int runs_tag(int writer) { return 2 * writer + 1; }

  // `count` elements of `type`, which has `element_bytes`.
  void send(int rank, int tag, const void* data, std::int64_t count, MPI_Datatype type,
            std::size_t element_bytes) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(count) * element_bytes;
    const bool is_remote = !context_.team.is_near(rank);
    ++context_.counts.messages;
    context_.counts.message_bytes += bytes;
    context_.counts.remote_messages += is_remote ? 1 : 0;
    context_.counts.remote_bytes += is_remote ? bytes : 0;
    MPI_Isend(data, static_cast<int>(count), type, rank, tag, context_.team.communicator(),
              &requests_.emplace_back(MPI_REQUEST_NULL));
  }
  void get(int rank, int tag, void* data, std::int64_t count_max, MPI_Datatype type) {
    MPI_Irecv(data, static_cast<int>(count_max), type, rank, tag, context_.team.communicator(),
              &requests_.emplace_back(MPI_REQUEST_NULL));
  }

  MethodContext& context_;
  MPI_Datatype run_type_;
  std::vector<MPI_Request> requests_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::deque<std::vector<Run>> runs_;
};

// The base of Writing and Reading; `kind` is their operation on the file.
class Rounds {
 protected:
  Rounds(MethodContext& context, const RankRequest& request, ExchangePlan& plan, storage::Kind kind)
      : context_(context), request_(request), plan_(plan), kind_(kind) {}

  Messages messages() const { return {context_, plan_.run_type()}; }
  // Method aggregate: a file position's place in the window of a writer and a round.
  std::byte* in_window(int writer, int round, std::int64_t position) const {
    const Extent window = plan_.domains()->window(writer, round);
    return context_.node_memory->window(writer, round) + (position - window.offset);
  }
  // The same in this rank's own window.
  std::byte* in_window(int round, std::int64_t position) const {
    return in_window(plan_.own_writer(), round, position);
  }
  // Between user memory and the window that this part is in.
  void copy_part(const RoundPart& part) const {
    const Stopwatch stopwatch(context_.phases.pack_ns);
    const bool writes = kind_ == storage::Kind::write;
    std::int64_t stream = part.stream - request_.stream;
    Cursor cursor(request_.memory.map(), 0, stream);
    for_each_extent(runs(part), [&](const Extent& extent) {
      std::byte* window = in_window(part.writer, part.round, extent.offset);
      if (request_.memory.converts()) {
        writes ? request_.memory.pack(stream, extent.bytes, window)
               : request_.memory.unpack(stream, extent.bytes, window);
        stream += extent.bytes;
        return;
      }
      for (std::int64_t left = extent.bytes; left > 0;) {
        const Extent piece = cursor.next(left);
        std::byte* memory = request_.memory.base() + piece.offset;
        std::memcpy(writes ? window : memory, writes ? memory : window,
                    static_cast<std::size_t>(piece.bytes));
        window += piece.bytes;
        left -= piece.bytes;
      }
    });
  }
  // Copies this rank's parts into, or out of, the windows of other ranks that it reaches.
  void copy_shared_parts(int round) {
    for (const RoundPart& part : plan_.parts(round)) {
      if (!part.shared) continue;
      {
        const Stopwatch stopwatch(context_.phases.exchange_ns);
        context_.node_memory->await_turn(part.writer, round, spin());
      }
      copy_part(part);
      context_.node_memory->leave(part.writer, round);
      context_.counts.shared_bytes += static_cast<std::uint64_t>(part.bytes);
    }
  }
  void await_sharers(int writer, int round) {
    const Stopwatch stopwatch(context_.phases.exchange_ns);
    context_.node_memory->await_all(writer, round, spin());
  }
  // How long to spin for a window. Ranks that sleep and wake each other end up on one CPU, so a
  // reader spins about as long as a window takes to copy; in a write the kernel needs the CPU for
  // write-back.
  std::chrono::microseconds spin() const {
    return std::chrono::microseconds(kind_ == storage::Kind::read ? 2000 : 50);
  }
  // The extents of the file that the contributions cover, ascending, with gaps of up to gap_bytes.
  static std::vector<Extent> covered(std::span<const Contribution> contributions,
                                     std::int64_t gap_bytes) {
    const std::vector<Run> runs = merged(contributions, gap_bytes);
    std::vector<Extent> extents;
    for_each_extent(runs, [&](const Extent& extent) { append(extents, extent); });
    join(extents, gap_bytes);
    return extents;
  }
  static std::vector<Run> merged(std::span<const Contribution> contributions,
                                 std::int64_t gap_bytes) {
    std::vector<Run> runs;
    for (const Contribution& one : contributions)
      runs.insert(runs.end(), one.runs.begin(), one.runs.end());
    merge(runs, gap_bytes);
    return runs;
  }
  // What a relay sends the writer of its contributions: never more runs than they have.
  std::vector<Run> runs_of_relay(const Relay& relay) const {
    if (relay.run) return {*relay.run};
    std::vector<Run> runs;
    const std::vector<Extent> extents = covered(relay.contributions, 0);
    for (const Extent& extent : extents)
      append(runs, extent);
    if (std::ssize(runs) <= relay.runs_max()) return runs;
    std::vector<Run> list = merged(relay.contributions, 0);
    // A read of overlapping parts takes everything in between, too.
    if (kind_ == storage::Kind::read && bytes_of(list) > plan_.domains()->window_bytes()) {
      const Extent& last = extents.back();
      const std::int64_t begin = extents.front().offset;
      return {{begin, last.offset + last.bytes - begin, 0, 1}};
    }
    return list;
  }
  // Runs follow their number in `count`; data may follow in the same message.
  static std::vector<Run> numbered(const std::vector<Run>& runs) {
    std::vector<Run> list{{0, 0, 0, static_cast<std::int64_t>(runs.size())}};
    list.insert(list.end(), runs.begin(), runs.end());
    return list;
  }
  // The size of a message with this many runs and bytes.
  static std::int64_t packet_runs(std::int64_t runs, std::int64_t bytes) {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Run));
    return 1 + runs + (bytes + unit - 1) / unit;
  }
  // Copies between the window of a writer and a round and the concatenated data of runs.
  void gather(std::span<const Run> runs, int writer, int round, std::byte* to) const {
    for_each_extent(runs, [&](const Extent& extent) {
      std::memcpy(to, in_window(writer, round, extent.offset),
                  static_cast<std::size_t>(extent.bytes));
      to += extent.bytes;
    });
  }
  void scatter(std::span<const Run> runs, int writer, int round, const std::byte* from) const {
    for_each_extent(runs, [&](const Extent& extent) {
      std::memcpy(in_window(writer, round, extent.offset), from,
                  static_cast<std::size_t>(extent.bytes));
      from += extent.bytes;
    });
  }
  // Opens the windows of the writers that this rank relays.
  void open_relays(int round) {
    for (const Relay& relay : plan_.relays(round))
      context_.node_memory->open(relay.writer, round, sharers(relay.contributions));
  }
  // Starts to receive the contributions' runs.
  void get_runs(std::span<Contribution> contributions, int round, Messages& messages) {
    for (Contribution& one : contributions) {
      if (one.is_merged()) continue;
      one.runs.assign(static_cast<std::size_t>(one.header.run_count), one.header.first);
      if (one.header.run_count == 1) continue;
      if (one.rank == context_.team.rank()) {
        one.runs = runs(own_part(one.writer(), round));
      } else {
        messages.get_runs(one.rank, one.writer(), one.runs);
      }
    }
  }
  // A rank has at most one part for a writer in a round.
  const RoundPart& own_part(int writer, int round) {
    const auto parts = plan_.parts(round);
    return *std::find_if(parts.begin(), parts.end(),
                         [&](const RoundPart& part) { return part.writer == writer; });
  }
  bool is_own(const RoundPart& part) const { return part.owner == context_.team.rank(); }

  // How many ranks share this rank's window in their round.
  static int sharers(std::span<const Contribution> contributions) {
    return static_cast<int>(std::count_if(contributions.begin(), contributions.end(),
                                          [](const Contribution& one) { return one.is_shared(); }));
  }
  std::vector<Run> runs(const RoundPart& part) const {
    return runs_of(request_.view.map, request_.view.displacement, part.stream, part.bytes);
  }
  int rank_of(int writer) const { return context_.writers[static_cast<std::size_t>(writer)]; }

  // Starts the transfers of these extents of the round's window.
  void start_in_window(Batch& batch, std::span<const Extent> extents, int round) {
    for (const Extent& extent : extents)
      start(batch, extent, in_window(round, extent.offset));
  }
  // Starts those of the contributions' extents, which are consecutive in their data.
  void start_streams(Batch& batch, std::span<const Contribution> contributions) {
    for (const Contribution& one : contributions) {
      std::byte* memory = one.data;
      for_each_extent(one.runs, [&](const Extent& extent) {
        start(batch, extent, memory);
        memory += extent.bytes;
      });
    }
  }
  // Waits for all started transfers; keeps the first error of all rounds.
  void finish(Batch& batch) {
    const Stopwatch stopwatch(context_.phases.file_io_ns);
    keep(error_, context_.file->finish(batch));
  }

  MethodContext& context_;
  const RankRequest& request_;
  ExchangePlan& plan_;
  int error_ = 0;

 private:
  void start(Batch& batch, const Extent& extent, std::byte* memory) {
    const iovec vector{memory, static_cast<std::size_t>(extent.bytes)};
    context_.file->start(batch, kind_, extent.offset, std::span(&vector, 1));
  }

  const storage::Kind kind_;
};

// A rank that lacks memory ends the job, because the others wait for it: here, where the memory
// that messages are on their way to is still there.
template <class Exchange>
int carried_out(MethodContext& context, const RankRequest& request, ExchangePlan& plan) {
  std::optional<Exchange> exchange;
  try {
    exchange.emplace(context, request, plan);
    return exchange->run();
  } catch (const std::bad_alloc&) {
    context.team.end_job("an exchange of data");
  }
}

}  // namespace ferry::collective
