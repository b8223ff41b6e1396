// The devices that a plan's cells need, each with its runtime: one without a device page cache, for
// placement `host` (with a cache its calls would have to stay coherent), and one with; the same for
// each variant.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "harness/measured_device.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

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
