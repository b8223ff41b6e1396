// One repeat of one cell, on all of its ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collective/team.hpp"
#include "harness/mpi/access.hpp"
#include "harness/mpi/counters.hpp"
#include "harness/mpi/files.hpp"
#include "harness/usage.hpp"

namespace ferry::bench::mpi {

// What one repeat measured. A phase begins on all ranks together, and lasts as long as the slowest
// of them needs.
struct Sample {
  std::uint64_t open_ns = 0;
  std::uint64_t io_ns = 0;
  std::uint64_t sync_ns = 0;
  std::uint64_t close_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;                   // calls of the program, by all ranks
  Usage usage;                                    // of all ranks
  CallCounters calls;                             // likewise
  std::uint64_t process_read_bytes = 0;           // that the ranks made the storage read
  SystemCounters system;                          // of rank 0's machine
  std::optional<collective::Statistics> counted;  // over all files
  bool oversubscribed = false;                    // a node has more ranks than CPUs
  std::uint64_t pattern_seed = 0;
};

// Runs on every rank of `team`, of which there are as many as the cell has. `memory` holds the
// rank's part: what is written, or room for what is read; reads are compared afterwards. Throws
// ferry::Error on all ranks or on none. The sample is complete on rank 0.
Sample run_cell(const collective::Team& team, const Cell& cell, std::uint64_t pattern_seed,
                std::vector<std::byte>& memory, Files& files);

}  // namespace ferry::bench::mpi
