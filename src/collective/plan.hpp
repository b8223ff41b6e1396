// The plan of an exchange: which piece of whose data goes to which writer in which round.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/context.hpp"
#include "collective/domains.hpp"
#include "collective/runs.hpp"

namespace ferry::collective {

// A piece of this rank's stream, which it gives to (or gets from) a writer in one round.
struct Part {
  int round = 0;
  int writer = 0;  // index into Context::writers
  std::int64_t stream = 0;
  std::int64_t bytes = 0;
  std::int64_t run_count = 0;
  // The writer, or its relay on this rank's node: the rank that is told of the part.
  int owner = 0;
  bool shared = false;  // this rank copies it into (or out of) the owner's window itself
};

// How the data of a contribution crosses.
enum class Way : std::int64_t {
  message,
  shared,  // Part::shared
  merged,  // that of the ranks of a node, by their relay. `bytes` and `run_count` are upper bounds,
           // and the runs that come in the round say what they are
};

// What the owner of its window is told of a part. Crosses the wire as it is. The extents of a part
// with several runs follow in a message of the round, so that the memory they take is bounded like
// that of the data.
struct Header {
  std::int64_t round = 0;
  std::int64_t bytes = 0;
  std::int64_t run_count = 0;
  std::int64_t writer = 0;
  Way way = Way::message;
  Run first;
};

// A part seen from its owner; or, by the writer, what comes of a node through a relay.
struct Contribution {
  int rank = 0;
  Header header;
  // While its round lasts:
  std::vector<Run> runs;  // also those of shared data
  std::unique_ptr<std::byte[]> staging;
  std::byte* data = nullptr;  // its stream: in the staging area or in this rank's own memory
  bool in_place = false;      // its one extent lies in the window itself

  bool is_one_extent() const { return header.run_count == 1 && header.first.is_extent(); }
  bool is_shared() const { return header.way == Way::shared; }
  bool is_merged() const { return header.way == Way::merged; }
  int writer() const { return static_cast<int>(header.writer); }
  // Takes over the runs of a merged contribution once they are known.
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
  // For a message of runs and data.
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

// A writer of another node for which this rank is the relay, in one round.
struct Relay {
  int round = 0;
  int writer = 0;
  std::span<Contribution> contributions;  // of ranks of this node
  // What they are together, where one run says it and the writer knows it from its header: then
  // this rank speaks to the writer as if it had all of it. Else see Way::merged.
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

class Plan {
 public:
  // Collective: gives each part's header to its owner, and those of relays to the writers.
  Plan(const Context& context, const Request& request, std::vector<Part> parts,
       std::optional<Domains> domains);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  int rounds() const { return rounds_; }  // in which this rank takes part
  // Where a writer gathers the data of a round in file order; none: as it came.
  const std::optional<Domains>& domains() const { return domains_; }
  int own_writer() const { return own_writer_; }  // index of this rank, -1 if it is none
  std::span<Part> parts(int round);
  // What this rank's own window gathers, as a writer.
  std::span<Contribution> contributions(int round);
  std::span<Relay> relays(int round);
  MPI_Datatype run_type() const { return run_type_; }

 private:
  void tell_owners(const Context& context, const Request& request);
  void find_relays();
  void tell_writers(const Context& context);

  std::vector<Part> parts_;                  // by round
  std::vector<Contribution> contributions_;  // by round, then rank
  std::vector<Contribution> relayed_;        // by round, then writer
  std::vector<Relay> relays_;                // likewise
  std::optional<Domains> domains_;
  MPI_Datatype run_type_ = MPI_DATATYPE_NULL;
  int own_writer_ = -1;
  int rounds_ = 0;
};

// For method aggregate: what of the request falls into each window.
std::vector<Part> aggregate_parts(const Request& request, const Domains& domains);

// For method serial: in each group of ranks (group_of[r]: index of r's writer) the ranks take
// turns, in pieces of buffer_bytes.
std::vector<Part> serial_parts(const Request& request, std::span<const std::int64_t> bytes_of,
                               std::span<const int> group_of, int rank, std::int64_t buffer_bytes);

// The writer of each rank: on its own node where there is one. An index into `writers`.
std::vector<int> groups_of(std::span<const int> node_of, std::span<const int> writers);

}  // namespace ferry::collective
