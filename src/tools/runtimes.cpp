#include "tools/runtimes.hpp"

#include <algorithm>

namespace ferry::bench {

Runtimes::Runtimes(const Plan& plan) {
  const auto cached = [](const Cell& cell) { return cell.is_cached(); };
  if (!std::all_of(plan.cells.begin(), plan.cells.end(), cached)) {
    RuntimeOptions options = plan.runtime;
    options.cache_bytes = 0;
    options.service_threads = 0;  // they have nothing to serve
    plain_ = std::make_unique<Runtime>(options);
    all_.push_back({plain_.get(), 0, 0});
  }
  if (std::any_of(plan.cells.begin(), plan.cells.end(), cached)) {
    cached_ = std::make_unique<Runtime>(plan.runtime);
    all_.push_back({cached_.get(), plan.runtime.cache_bytes, plan.runtime.page_bytes});
  }
}

}  // namespace ferry::bench
