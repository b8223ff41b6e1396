// The devices that measure a plan's cells, with their runtimes.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

#include "harness/cell_run.hpp"
#include "harness/metadata.hpp"
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
  // The same of the jobs of a group, together. Throws a JobFailure. Of the device cpu alone.
  virtual GroupSample run_group(const std::vector<CellRun>& runs, const std::atomic<bool>& stopped);
  // One pass of a read cell through its own interface, each call compared with the pattern, or with
  // what a plain pread (of a URI: another client) gives for the same bytes. Throws likewise.
  virtual void verify_reads(const Cell& cell, const std::atomic<bool>& stopped) = 0;

  // What a repeat has written, however much of it the deadline or the draw of places left; files
  // that are read afterwards are whole then. Throws likewise.
  virtual void verify_write(const CellRun& run, const Sample& sample,
                            const std::atomic<bool>& stopped);

  // One repeat of a cell with program `metadata`; throws likewise. Of the device cpu alone.
  virtual MetadataSample run_metadata(const CellRun& run, const std::atomic<bool>& stopped);

  // Absent where it has no runtime.
  virtual std::optional<RuntimeInfo> info() const { return std::nullopt; }
  // What else is to be said of the environment.
  virtual void add_facts(nlohmann::ordered_json& /*environment*/) const {}
  // Ends calls that are under way, where that can be done. Thread-safe, and does not throw.
  virtual void shutdown(std::chrono::milliseconds deadline) = 0;

 protected:
  // What a write cell has written, in whole, if the cell wants that checked through its own
  // interface.
  void read_back(const CellRun& run, const std::atomic<bool>& stopped);
};

// The plan's device, set up in this way. Throws PlanError for one that the program does not have,
// and ferry::Error: ENODEV where the machine has no such device, ENOSYS where this build cannot use
// it, and what a runtime throws.
using DeviceMaker =
    std::function<std::unique_ptr<MeasuredDevice>(const Plan&, const RuntimeOptions&)>;

// The devices that a plan's cells need, each with its runtime: one without a device page cache, for
// placement `host` (with a cache its calls would have to stay coherent), and one with; the same for
// each variant.
class Runtimes {
 public:
  // Throws as the maker does.
  Runtimes(const Plan& plan, const DeviceMaker& make_device);

  MeasuredDevice& of(const Cell& cell) const { return *find(cell)->device; }

  // One entry for each that there is.
  struct Entry {
    std::unique_ptr<MeasuredDevice> device;
    std::uint64_t cache_bytes;  // 0: it has no cache
    std::uint32_t page_bytes;
    std::optional<unsigned> variant;
  };
  const std::vector<Entry>& all() const { return all_; }

 private:
  const Entry* find(const Cell& cell) const;
  void add(const Plan& plan, const Cell& cell, const DeviceMaker& make_device);

  std::vector<Entry> all_;
};

}  // namespace ferry::bench
