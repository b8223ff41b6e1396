// The device that a plan's cells are measured on, with its runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include <ferry/ferry.hpp>

#include "harness/cell_run.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

class MeasuredDevice {
 public:
  MeasuredDevice() = default;
  MeasuredDevice(const MeasuredDevice&) = delete;
  MeasuredDevice& operator=(const MeasuredDevice&) = delete;
  virtual ~MeasuredDevice() = default;

  // One repeat. Throws ferry::Error when a call fails, ContentsError when the buffers hold the
  // wrong bytes after reading. Files are closed either way.
  virtual Sample run_cell(const CellRun& run, const std::atomic<bool>& stopped) = 0;
  // One pass of a read cell through its own interface, each call compared with the pattern, or with
  // what a plain pread (of a URI: another client) gives for the same bytes. Throws likewise.
  virtual void verify_reads(const Cell& cell, const std::atomic<bool>& stopped) = 0;

  virtual RuntimeInfo info() const = 0;
  // Ends calls that are under way. Thread-safe, and does not throw.
  virtual void shutdown(std::chrono::milliseconds deadline) = 0;
};

// The plan's device, set up in this way. Throws ferry::Error: ENODEV where the machine has no such
// device, ENOSYS where this build cannot use it, and what a runtime throws.
std::unique_ptr<MeasuredDevice> make_device(const Plan& plan, const RuntimeOptions& options);

}  // namespace ferry::bench
