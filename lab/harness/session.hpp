// Runs a plan: verifies every cell, then repeats them all, interleaved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/cell_run.hpp"
#include "harness/interruption.hpp"
#include "harness/measured_device.hpp"
#include "harness/plan.hpp"
#include "programs/file_cache.hpp"

namespace ferry::bench {

// What ended a session: the cell, the errno (0 where contents were wrong), and what happened.
struct CellFailure : std::runtime_error {
  CellFailure(std::string cell_id, int number, const std::string& what)
      : std::runtime_error(what), cell(std::move(cell_id)), error_number(number) {}
  std::string cell;
  int error_number;
};

class Session {
 public:
  Session(const Plan& plan, const Runtimes& runtimes, const Interruption& interruption)
      : plan_(plan),
        uncounted_rounds_(plan.device == Device::ranks && !plan.cells.front().streams ? 1 : 0),
        cells_(plan.cells),
        groups_(groups_of(plan.cells)),
        runtimes_(runtimes),
        interruption_(interruption) {}

  // Order A B C, then C B A, and so on: neighbours make pairs in the order A B B A. Or one after
  // the other, if the plan says so. Throws CellFailure.
  void run();

 private:
  void prepare(Cell& cell, const std::vector<std::size_t>& group);
  void run_once(const std::vector<std::size_t>& group, unsigned round);
  void make_files(Cell& cell);
  std::uint64_t settling_passes(const Cell& cell) const;
  void read_once(std::size_t index, unsigned round);
  void write_once(std::size_t index, unsigned round);
  void group_once(const std::vector<std::size_t>& group, unsigned round);
  const Cell* writer_of(const std::vector<std::size_t>& group, const Cell& reader) const;
  CellRun begin_write(std::size_t index, unsigned round, std::vector<std::string>& fresh);
  void make_written(CellRun& run);
  void end_write(const CellRun& run, const Sample& sample, ScratchFiles& made);
  std::optional<CacheState> state_before(const Cell& cell) const;
  static std::optional<CacheState> state_after(const Cell& cell, std::optional<CacheState> before,
                                               std::uint64_t distinct_bytes,
                                               const StorageCounters& storage);
  void metadata_once(const Cell& cell, unsigned round);
  void report(const Cell& cell, unsigned round, const Sample& sample,
              std::optional<CacheState> state, std::optional<std::uint64_t> pattern_seed);
  template <class Work>
  void on_cell(const Cell& cell, Work work);

  const Plan& plan_;
  // Of ranks that have their parts in memory, one touches it. The others warm up before each
  // repeat.
  const unsigned uncounted_rounds_;
  std::vector<Cell> cells_;  // with the seeds that were found in files
  const std::vector<std::vector<std::size_t>> groups_;
  const Runtimes& runtimes_;
  const Interruption& interruption_;
  std::vector<std::string> block_devices_;  // of the cells
  std::vector<std::uint32_t> sums_;         // of the read cells' files
  std::set<std::string> made_paths_;        // of files that are read
  std::set<std::string> raw_paths_;         // of block devices that were written
  std::vector<std::unique_ptr<ScratchFiles>> made_;
};

}  // namespace ferry::bench
