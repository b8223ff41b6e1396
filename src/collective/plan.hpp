// The plan of an exchange through writers, for the methods aggregate and serial: which data each
// rank gives each writer in each round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/context.hpp"
#include "collective/runs.hpp"

namespace ferry::collective {

// Writing ranks, spread over the nodes: one per node in turn, and evenly over a node's ranks.
// node_of[r] is any number shared by the ranks of a node. Rank 0 is always the first.
std::vector<int> choose_writers(std::span<const int> node_of, int count);

// The part [begin, end) of a file, cut into one domain per writer, and these into windows: a
// writer's buffer in one round. Inner borders of domains and windows are multiples of the
// alignment; if that exceeds the buffer, windows are equal parts of it, halved as far as possible.
class Domains {
 public:
  Domains(std::int64_t begin, std::int64_t end, int writers, std::int64_t buffer_bytes,
          std::int64_t alignment_bytes)
      : begin_(begin / alignment_bytes * alignment_bytes), end_(end) {
    const auto up = [&](std::int64_t bytes) {
      return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    };
    domain_bytes_ = std::max(alignment_bytes, up((end - begin_ + writers - 1) / writers));
    window_bytes_max_ = up(buffer_bytes);
    while (window_bytes_max_ > buffer_bytes && alignment_bytes > buffer_bytes &&
           window_bytes_max_ % 2 == 0)
      window_bytes_max_ /= 2;
    window_bytes_ = std::min(domain_bytes_, window_bytes_max_);
    rounds_ = static_cast<int>((domain_bytes_ + window_bytes_ - 1) / window_bytes_);
  }

  // The same, further on in the file.
  void shift(std::int64_t distance) {
    begin_ += distance;
    end_ += distance;
  }
  std::int64_t window_bytes() const { return window_bytes_; }
  // For any range of the file with these settings.
  std::int64_t window_bytes_max() const { return window_bytes_max_; }
  int rounds() const { return rounds_; }
  // May be empty.
  Extent window(int writer, int round) const {
    const std::int64_t domain = begin_ + writer * domain_bytes_;
    const std::int64_t from = std::min(end_, domain + round * window_bytes_);
    const std::int64_t to = std::min({end_, domain + domain_bytes_, from + window_bytes_});
    return {from, to - from};
  }
  // The domain and window of `position`.
  int writer_of(std::int64_t position) const {
    return static_cast<int>((position - begin_) / domain_bytes_);
  }
  int round_of(std::int64_t position) const {
    return static_cast<int>((position - begin_) % domain_bytes_ / window_bytes_);
  }

 private:
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t domain_bytes_ = 0;
  std::int64_t window_bytes_ = 0;
  std::int64_t window_bytes_max_ = 0;
  int rounds_ = 0;
};

// A piece of this rank's stream that it gives to (or gets from) a writer in one round.
struct RoundPart {
  int round = 0;
  int writer = 0;  // index into MethodContext::writers
  std::int64_t stream = 0;
  std::int64_t bytes = 0;
  std::int64_t run_count = 0;
  // The rank that gets the part's header: the writer, or its relay on this rank's node.
  int owner = 0;
  bool shared = false;  // this rank copies it into (or out of) the owner's window itself
};

// How a contribution's data moves.
enum class Delivery : std::int64_t {
  message,
  shared,  // RoundPart::shared
  merged,  // a node's, by its relay; `bytes` and `run_count` are upper bounds of the round's runs
};

// A part's header for the owner of its window. Sent as is. The extents of a part with several runs
// follow in a message of the round, which bounds their memory like that of the data.
struct Header {
  std::int64_t round = 0;
  std::int64_t bytes = 0;
  std::int64_t run_count = 0;
  std::int64_t writer = 0;
  Delivery way = Delivery::message;
  Run first;
};

// A part as its owner sees it; for the writer, also a node's data from its relay.
struct Contribution {
  int rank = 0;
  Header header;
  // During its round:
  std::vector<Run> runs;  // also those of shared data
  std::unique_ptr<std::byte[]> staging;
  std::byte* data = nullptr;  // its stream: in staging memory or in this rank's own memory
  bool in_place = false;      // its single extent is in the window itself

  bool is_one_extent() const { return header.run_count == 1 && header.first.is_extent(); }
  bool is_shared() const { return header.way == Delivery::shared; }
  bool is_merged() const { return header.way == Delivery::merged; }
  int writer() const { return static_cast<int>(header.writer); }
  // Sets the runs of a merged contribution, once known.
  void set_merged(std::vector<Run> merged) {
    runs = std::move(merged);
    header.first = runs.front();
    header.run_count = static_cast<std::int64_t>(runs.size());
    header.bytes = bytes_of(runs);
  }
  std::byte* stage() {
    staging = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(header.bytes));
    return data = staging.get();
  }
  // Bounds of a message of runs and data.
  Run* stage_runs(std::int64_t count) {
    staging =
        std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count) * sizeof(Run));
    return reinterpret_cast<Run*>(staging.get());
  }
  void clear() {
    runs = {};
    staging.reset();
    data = nullptr;
    in_place = false;
  }
};

// A writer on another node, which this rank relays in one round.
struct Relay {
  int round = 0;
  int writer = 0;
  std::span<Contribution> contributions;  // of this node's ranks
  // Their union, if one run describes it and the header tells the writer: then this rank acts as if
  // it owned all of it. Else see Delivery::merged.
  std::optional<Run> run;

  std::int64_t runs_max() const {
    std::int64_t runs = 0;
    for (const Contribution& one : contributions)
      runs += one.header.run_count;
    return runs;
  }
  std::int64_t bytes_max() const {
    std::int64_t bytes = 0;
    for (const Contribution& one : contributions)
      bytes += one.header.bytes;
    return bytes;
  }
};

class ExchangePlan {
 public:
  // Collective: sends each part's header to its owner, and relays' headers to the writers.
  ExchangePlan(const MethodContext& context, const RankRequest& request,
               std::vector<RoundPart> parts, std::optional<Domains> domains);
  ~ExchangePlan();
  ExchangePlan(const ExchangePlan&) = delete;
  ExchangePlan& operator=(const ExchangePlan&) = delete;

  // For the same transfer of all ranks further on: by so many bytes of this rank's stream, and of
  // the file.
  void shift(std::int64_t stream, std::int64_t distance);
  std::size_t size() const { return parts_.size() + contributions_.size() + relayed_.size(); }
  int rounds() const { return rounds_; }  // that this rank takes part in
  // Where a writer sorts the data of a round in file order; empty: unsorted.
  const std::optional<Domains>& domains() const { return domains_; }
  int own_writer() const { return own_writer_; }  // index of this rank, or -1
  std::span<RoundPart> parts(int round);
  // Contributions to this rank's own window, as a writer.
  std::span<Contribution> contributions(int round);
  std::span<Relay> relays(int round);
  MPI_Datatype run_type() const { return run_type_; }

 private:
  void tell_owners(const MethodContext& context, const RankRequest& request);
  void find_relays();
  void tell_writers(const MethodContext& context);

  std::vector<RoundPart> parts_;             // by round
  std::vector<Contribution> contributions_;  // by round, then rank
  std::vector<Contribution> relayed_;        // by round, then writer
  std::vector<Relay> relays_;                // likewise
  std::optional<Domains> domains_;
  MPI_Datatype run_type_ = MPI_DATATYPE_NULL;
  int own_writer_ = -1;
  int rounds_ = 0;
};

// Method aggregate: the part of the request in each window.
std::vector<RoundPart> aggregate_parts(const RankRequest& request, const Domains& domains);

// Method serial: in each group of ranks (group_of[r]: index of r's writer) the ranks take turns, in
// pieces of buffer_bytes.
std::vector<RoundPart> serial_parts(const RankRequest& request,
                                    std::span<const std::int64_t> bytes_of,
                                    std::span<const int> group_of, int rank,
                                    std::int64_t buffer_bytes);

// Each rank's writer, on its own node if possible. An index into `writers`.
std::vector<int> groups_of(std::span<const int> node_of, std::span<const int> writers);

// Executes the plan; returns this rank's error as an errno. An error of the storage does not end
// the exchange, so that no rank waits in vain. Running out of memory ends the process, and with it
// the job.
//
// Memory of a writer: two windows (Domains::window_bytes()), and the same again for data in flight;
// of any rank: its data of two rounds. More only if the extents of several ranks overlap.
int write_exchanged(MethodContext& context, const RankRequest& request,
                    ExchangePlan& plan) noexcept;
int read_exchanged(MethodContext& context, const RankRequest& request, ExchangePlan& plan) noexcept;

}  // namespace ferry::collective
