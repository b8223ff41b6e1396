// The device that measures a plan's cells, with its runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <nlohmann/json_fwd.hpp>

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

  // What a repeat has written, however much of it the deadline left; files that are read afterwards
  // are whole then. Throws likewise.
  virtual void verify_write(const CellRun& run, const Sample& sample,
                            const std::atomic<bool>& stopped);

  // Absent where it has no runtime.
  virtual std::optional<RuntimeInfo> info() const { return std::nullopt; }
  // What else is to be said of the environment.
  virtual void add_facts(nlohmann::ordered_json& /*environment*/) const {}
  // Ends calls that are under way; whether that can be done. Thread-safe, and does not throw.
  virtual bool shutdown(std::chrono::milliseconds deadline) = 0;
};

// The plan's device, set up in this way. Throws PlanError for one that the program does not have,
// and ferry::Error: ENODEV where the machine has no such device, ENOSYS where this build cannot use
// it, and what a runtime throws.
using DeviceMaker =
    std::function<std::unique_ptr<MeasuredDevice>(const Plan&, const RuntimeOptions&)>;

}  // namespace ferry::bench
