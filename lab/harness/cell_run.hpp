// One repeat of one cell, or of several that run together: opens, transfers, syncs and closes on
// the device threads, each timed.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <ferry/ferry.hpp>

#include "harness/layout.hpp"
#include "harness/plan.hpp"
#include "harness/sample.hpp"

namespace ferry::bench {

struct CellRun {
  const Cell& cell;
  unsigned repeat = 0;
  std::uint64_t pattern_seed = 0;  // of what is written
  int create_flags = 0;            // O_CREAT and O_EXCL or O_TRUNC, for writes
  std::string block_device;        // of block_device_folder(), or empty

  // The pattern that a part of this file is written with, or must be read with where that is known.
  std::uint64_t seed_of(const ThreadPart& part) const {
    const std::uint64_t seed = cell.operation == MeasuredOperation::read
                                   ? cell.expect_pattern_seed.value_or(0)
                                   : pattern_seed;
    return contents_of(cell, seed, part.file).seed;
  }
};

// One repeat of a group.
struct GroupSample {
  std::uint64_t begin_ns = 0;  // when they began together
  std::vector<Sample> jobs;    // each its own, without what is counted for the whole process
  Sample all;
};

// What ended a repeat of a group: the job, by its place among the runs, and what it threw.
struct JobFailure {
  unsigned job;
  std::exception_ptr error;
};

// As MeasuredDevice::run_group(), on threads that are the jobs' in their order.
GroupSample run_group(Runtime& runtime, const std::vector<CellRun>& runs,
                      const std::atomic<bool>& stopped);

// As MeasuredDevice::run_cell().
Sample run_cell(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped);

}  // namespace ferry::bench
