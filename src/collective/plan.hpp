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
  bool shared = false;  // this rank copies it into (or out of) the writer's window itself
};

// What a writer is told of a part. Crosses the wire as it is. The extents of a part with several
// runs follow in a message of the round, so that the memory they take is bounded like that of the
// data.
struct Header {
  std::int64_t round = 0;
  std::int64_t bytes = 0;
  std::int64_t run_count = 0;
  std::int64_t shared = 0;  // Part::shared
  Run first;
};

// A part seen from its writer.
struct Contribution {
  int rank = 0;
  Header header;
  // While its round lasts:
  std::vector<Run> runs;  // also those of shared data
  std::unique_ptr<std::byte[]> staging;
  std::byte* data = nullptr;  // its stream: in the staging area or in this rank's own memory
  bool in_place = false;      // its one extent lies in the window itself

  bool is_one_extent() const { return header.run_count == 1 && header.first.is_extent(); }
  bool is_shared() const { return header.shared != 0; }
  std::byte* stage() {
    staging = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(header.bytes));
    return data = staging.get();
  }
  void clear() {
    runs = {};
    staging.reset();
    data = nullptr;
    in_place = false;
  }
};

class Plan {
 public:
  // Collective: gives each part's header to its writer.
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
  std::span<Contribution> contributions(int round);
  MPI_Datatype run_type() const { return run_type_; }

 private:
  void exchange_headers(const Context& context, const Request& request);

  std::vector<Part> parts_;                  // by round
  std::vector<Contribution> contributions_;  // by round, then rank
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
