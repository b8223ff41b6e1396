// The output of ferry-bench: one JSON object per line on standard output.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "harness/cell_run.hpp"
#include "harness/metadata.hpp"
#include "harness/plan.hpp"
#include "programs/file_cache.hpp"

namespace ferry::bench {

nlohmann::ordered_json usage_json(const Usage& usage);

// Every line is flushed. They throw ferry::Error when standard output is gone.
void report_environment(const nlohmann::ordered_json& facts);
void report_verified(const Cell& cell);
// `state` is of reads only, `pattern_seed` of writes and of ranks.
void report_sample(const Cell& cell, unsigned repeat, const Sample& sample,
                   std::optional<CacheState> state, std::optional<std::uint64_t> pattern_seed);
// Of a job without what is counted for the whole process, and of all jobs of a group with it: its
// line has the group's name.
void report_job(const Cell& cell, unsigned repeat, const Sample& sample,
                std::uint64_t group_begin_ns, std::optional<CacheState> state,
                std::optional<std::uint64_t> pattern_seed);
void report_group(const Cell& cell, unsigned repeat, const Sample& all,
                  std::uint64_t group_begin_ns);
// A line for each phase.
void report_metadata(const Cell& cell, unsigned repeat, const MetadataSample& sample);

void report_done();

}  // namespace ferry::bench
