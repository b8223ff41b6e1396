// The runtimes that a plan's cells need: one without a page cache in the device's memory, as
// placement `host` wants it (beside a cache its calls would have to stay coherent), and one with.
#pragma once

#include <memory>
#include <vector>

#include <ferry/ferry.hpp>

#include "tools/plan.hpp"

namespace ferry::bench {

class Runtimes {
 public:
  // Throws ferry::Error.
  explicit Runtimes(const Plan& plan);

  Runtime& of(const Cell& cell) const { return cell.is_cached() ? *cached_ : *plain_; }

  // One entry for each that there is.
  struct Entry {
    Runtime* runtime;
    std::uint64_t cache_bytes;  // 0: it has no cache
    std::uint32_t page_bytes;
  };
  const std::vector<Entry>& all() const { return all_; }

 private:
  std::unique_ptr<Runtime> plain_;
  std::unique_ptr<Runtime> cached_;
  std::vector<Entry> all_;
};

}  // namespace ferry::bench
