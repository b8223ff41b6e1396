// One measuring rank: executes its share of a plan, together with the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "harness/mpi/ranks.hpp"
#include "harness/plan.hpp"
#include "harness/sample.hpp"
#include "storage/storage.hpp"

namespace ferry::bench {

// What all ranks do together.
struct RankRun {
  std::size_t cell = 0;  // its number
  unsigned repeat = 0;
  // Of what is written, or read; absent where the file is to tell.
  std::optional<std::uint64_t> pattern_seed;
};

// Its functions are collective, and return at once on ranks that the cell does not have. They throw
// ferry::Error on all that it has or on none: EBADMSG where contents are wrong, EINTR where a rank
// has got a signal to end.
class RankWorker {
 public:
  RankWorker(const Ranks& world, const Plan& plan);

  // One repeat. A phase begins on all ranks together, and lasts as long as the slowest of them
  // needs. Reads are compared afterwards: all, or where the cell streams the last of each rank, and
  // each as it comes if the cell checks. Complete on rank 0.
  Sample run(const RankRun& run, const std::atomic<bool>& stopped);
  // One pass over the files of a cell that streams, each transfer compared with the pattern or, of
  // reads without a seed, with a plain pread.
  void verify_reads(const RankRun& run);
  // Verifies what the last repeat has written, each rank a part of its file. What it left out is
  // written where the file is read afterwards.
  void verify(const RankRun& run);

 private:
  // The cell with its pattern, and the ranks that it has; null without this one.
  std::pair<Cell, const Ranks*> find(const RankRun& run) const;
  void verify_share(const Cell& cell, std::uint64_t seed, unsigned rank, bool whole) const;

  const Plan& plan_;
  const std::unique_ptr<storage::Storage> storage_;   // of interface native
  std::map<unsigned, std::unique_ptr<Ranks>> teams_;  // by ranks of a cell; null: without this one
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;  // in it, at a page's beginning, for direct transfers
  std::uint64_t calls_ = 0;    // of this rank in the last repeat of a cell that streams
  bool is_partial_ = false;    // that may have left out some of what the ranks were to do
};

}  // namespace ferry::bench
