// Runs a plan on all ranks: every cell in turn, again and again, in the order A B B A.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collective/team.hpp"
#include "harness/mpi/cell_run.hpp"
#include "harness/mpi/report.hpp"

namespace ferry::bench::mpi {

// A cell could not be measured. On all ranks; what() is that of rank 0.
struct CellFailure : std::runtime_error {
  CellFailure(std::string id, int number, const std::string& what)
      : std::runtime_error(what), cell(std::move(id)), error_number(number) {}
  std::string cell;
  int error_number;  // 0: the contents are wrong
};

// Collective, as its functions are.
class Session {
 public:
  // `stopped` becomes true on any rank when the measurement is to end.
  Session(MPI_Comm world, const Plan& plan, Files& files, MadeFiles& made,
          const std::atomic<bool>& stopped);

  // Throws CellFailure: EINTR when it was stopped. A first round is not counted: it opens
  // connections, and touches memory.
  void run();

 private:
  const collective::Team* team_of(const Cell& cell) const;
  void check_stopped(const Cell& cell) const;
  template <class Work>
  void on_cell(const Cell& cell, Work work);
  void measure(const Cell& cell, int repeat);
  std::optional<CacheState> prepare(const Cell& cell);
  CacheState prepare_cache(const Cell& cell);
  void finish(const Cell& cell, const collective::Team& team, std::uint64_t pattern_seed);

  const Plan& plan_;
  Files& files_;
  MadeFiles& made_;
  const std::atomic<bool>& stopped_;
  collective::Team world_;
  std::map<unsigned, std::unique_ptr<collective::Team>> teams_;  // by ranks; where this one is in
  std::vector<std::byte> memory_;
};

}  // namespace ferry::bench::mpi
