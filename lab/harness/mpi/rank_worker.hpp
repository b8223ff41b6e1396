// One measuring rank: executes its share of a plan, together with the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "harness/mpi/ranks.hpp"
#include "harness/plan.hpp"
#include "harness/sample.hpp"
#include "storage/storage.hpp"

namespace ferry::bench {

// Its functions are collective, and return at once on ranks that the cell does not have. They throw
// ferry::Error on all that it has or on none: EBADMSG where contents are wrong, EINTR where a rank
// has got a signal to end.
class RankWorker {
 public:
  RankWorker(const Ranks& world, const Plan& plan);

  // One repeat of the cell with this number. A phase begins on all ranks together, and lasts as
  // long as the slowest of them needs. Reads are compared afterwards. Complete on rank 0.
  Sample run(std::size_t cell, std::uint64_t pattern_seed);
  // Verifies what was written, each rank a part of its file.
  void verify(std::size_t cell, std::uint64_t pattern_seed);

 private:
  const Plan& plan_;
  const std::unique_ptr<storage::Storage> storage_;   // of interface native
  std::map<unsigned, std::unique_ptr<Ranks>> teams_;  // by ranks of a cell; null: without this one
  std::vector<std::byte> memory_;
};

}  // namespace ferry::bench
