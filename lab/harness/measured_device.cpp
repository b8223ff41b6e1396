#include "harness/measured_device.hpp"

#include "harness/verification.hpp"

namespace ferry::bench {

void MeasuredDevice::verify_write(const CellRun& run, const Sample& sample,
                                  const std::atomic<bool>& stopped) {
  const Cell& cell = run.cell;
  if (sample.deadline_reached) {
    verify_written(cell, run.pattern_seed, sample.calls_of_part);
    if (!cell.keep && !cell.check) return;
    complete_written(cell, run.pattern_seed, sample.calls_of_part);
  }
  verify_written(cell, run.pattern_seed);
  if (!cell.check) return;
  Cell back = cell;
  back.operation = Operation::read;
  back.expect_pattern_seed = run.pattern_seed;
  verify_reads(back, stopped);
}

}  // namespace ferry::bench
