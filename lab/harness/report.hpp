// The output of ferry-bench: one JSON object per line on standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "harness/cell_run.hpp"
#include "harness/plan.hpp"
#include "programs/file_cache.hpp"

namespace ferry::bench {

nlohmann::ordered_json usage_json(const Usage& usage);

class Report {
 public:
  // Every line is flushed. Throws ferry::Error when standard output is gone.
  void environment(const nlohmann::ordered_json& facts);
  void verified(const Cell& cell);
  // `state` is of reads only, `pattern_seed` of writes and of ranks.
  void sample(const Cell& cell, unsigned repeat, const Sample& sample,
              std::optional<CacheState> state, std::optional<std::uint64_t> pattern_seed);
  void done();
};

}  // namespace ferry::bench
