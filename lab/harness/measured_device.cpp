#include "harness/measured_device.hpp"

#include <cerrno>

#include "harness/verification.hpp"

namespace ferry::bench {

void MeasuredDevice::verify_write(const CellRun& run, const Sample& sample,
                                  const std::atomic<bool>& stopped) {
  const Cell& cell = run.cell;
  if (sample.deadline_reached || cell.may_leave_places() || cell.mixes()) {
    verify_written(cell, run.pattern_seed, sample.calls_of_part);
    if (cell.mixes()) return;
    if (!cell.keep && !cell.check) return;
    complete_written(cell, run.pattern_seed, sample.calls_of_part);
  }
  verify_written(cell, run.pattern_seed);
  read_back(run, stopped);
}

void MeasuredDevice::read_back(const CellRun& run, const std::atomic<bool>& stopped) {
  if (!run.cell.check || run.cell.mixes()) return;
  Cell back = run.cell;
  back.operation = MeasuredOperation::read;
  back.expect_pattern_seed = run.pattern_seed;
  verify_reads(back, stopped);
}

GroupSample MeasuredDevice::run_group(const std::vector<CellRun>&, const std::atomic<bool>&) {
  throw Error(ENOTSUP, "groups are for the device cpu");
}

MetadataSample MeasuredDevice::run_metadata(const CellRun&, const std::atomic<bool>&) {
  throw Error(ENOTSUP, "program metadata is for the device cpu");
}

Runtimes::Runtimes(const Plan& plan, const DeviceMaker& make_device) {
  // Those without a cache first, as they always were.
  for (const bool cached : {false, true}) {
    for (const Cell& cell : plan.cells)
      if (cell.with_cache == cached && find(cell) == nullptr) add(plan, cell, make_device);
  }
}

const Runtimes::Entry* Runtimes::find(const Cell& cell) const {
  for (const Entry& entry : all_) {
    if (entry.variant == cell.variant && (entry.cache_bytes > 0) == cell.with_cache) return &entry;
  }
  return nullptr;
}

void Runtimes::add(const Plan& plan, const Cell& cell, const DeviceMaker& make_device) {
  RuntimeOptions options = cell.variant ? plan.variants[*cell.variant] : plan.runtime;
  if (!cell.with_cache) {
    options.cache_bytes = 0;
    options.service_threads = 0;  // they have nothing to serve
  }
  const std::uint32_t page_bytes = cell.with_cache ? options.page_bytes : 0;
  all_.push_back({make_device(plan, options), options.cache_bytes, page_bytes, cell.variant});
}

}  // namespace ferry::bench
