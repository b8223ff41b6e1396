#include "harness/report.hpp"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/programs.hpp"
#include "harness/usage.hpp"
#include "programs/json_lines.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// Nearest rank: the smallest value that at least this share of them does not exceed.
std::uint64_t percentile(const std::vector<std::uint64_t>& sorted, unsigned percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

Json latency_json(const Cell& cell, const Sample& sample) {
  const std::vector<std::uint64_t>& sorted = sample.latencies_ns;
  if (sorted.empty()) return nullptr;
  return {{"p50", percentile(sorted, 50)}, {"p90", percentile(sorted, 90)},
          {"p99", percentile(sorted, 99)}, {"max", sorted.back()},
          {"samples", sorted.size()},      {"one_call_in", latency_stride(cell)}};
}

Json counters_json(const RuntimeStatistics& statistics) {
  return {{"calls", statistics.calls},
          {"batches", statistics.batches},
          {"doorbells", statistics.doorbells},
          {"parks", statistics.parks},
          {"staged_calls", statistics.staged_calls},
          {"staged_bytes", statistics.staged_bytes},
          {"requests", statistics.requests},
          {"refused_requests", statistics.refused_requests},
          {"bytes_read", statistics.bytes_read},
          {"bytes_written", statistics.bytes_written},
          {"inline_operations", statistics.inline_operations},
          {"engine_operations", statistics.engine_operations},
          {"pool_operations", statistics.pool_operations},
          {"server_parks", statistics.server_parks}};
}

Json count_json(const std::optional<std::uint64_t>& count) {
  return count ? Json(*count) : Json(nullptr);
}

Json storage_json(const StorageCounters& counters) {
  return {{"process_read_bytes", count_json(counters.process_read_bytes)},
          {"process_write_bytes", count_json(counters.process_write_bytes)},
          {"device_read_bytes", count_json(counters.device_read_bytes)},
          {"device_write_bytes", count_json(counters.device_write_bytes)},
          {"network_read_bytes", count_json(counters.network_read_bytes)}};
}

Json cache_json(const device::cache::Counters& counters) {
  Json object = Json::object();
  for (const NamedCounter& counter : cache_counters)
    object[counter.name] = counters.*counter.member;
  return object;
}

// Also of a GPU's warps.
Json of_threads(const Cell& cell, const Sample& sample) {
  Json object = {{"deadline_reached", sample.deadline_reached},
                 {"flush_ns", sample.flush_ns},
                 {"compute_ns", nullptr},
                 {"first_done_ns", sample.first_done_ns},
                 {"last_done_ns", sample.last_done_ns},
                 {"latency_ns", latency_json(cell, sample)},
                 {"callers", usage_json(sample.callers)},
                 {"server", usage_json(sample.others)},
                 {"storage", storage_json(sample.storage)},
                 {"device_cache_state", nullptr},
                 {"counters", counters_json(sample.counted)},
                 {"cache", nullptr}};
  if (cell.computes()) object["compute_ns"] = sample.compute_ns;
  if (sample.device_cache) object["device_cache_state"] = name_of(*sample.device_cache);
  if (cell.is_cached()) object["cache"] = cache_json(sample.counted.cache);
  return object;
}

}  // namespace

Json usage_json(const Usage& usage) {
  return {{"user_cpu_ns", usage.user_cpu_ns},
          {"system_cpu_ns", usage.system_cpu_ns},
          {"voluntary_switches", usage.voluntary_switches},
          {"involuntary_switches", usage.involuntary_switches}};
}

void Report::environment(const Json& facts) {
  Json line = {{"type", "environment"}};
  line.update(facts);
  print_line(line);
}

void Report::verified(const Cell& cell) {
  print_line({{"type", "verified"}, {"cell", cell.id}});
}

void Report::sample(const Cell& cell, unsigned repeat, const Sample& sample,
                    std::optional<CacheState> state, std::optional<std::uint64_t> pattern_seed) {
  Json line = {{"type", "sample"},          {"cell", cell.id},
               {"repeat", repeat},          {"elapsed_ns", sample.elapsed_ns},
               {"bytes", sample.bytes},     {"operations", sample.operations},
               {"open_ns", sample.open_ns}, {"io_ns", sample.io_ns},
               {"sync_ns", sample.sync_ns}, {"close_ns", sample.close_ns},
               {"cache_state", nullptr},    {"verified", true},
               {"pattern_seed", nullptr}};
  if (state) line["cache_state"] = name_of(*state);
  if (pattern_seed) line["pattern_seed"] = *pattern_seed;
  line.update(sample.of_ranks ? *sample.of_ranks : of_threads(cell, sample));
  print_line(line);
}

void Report::done() {
  print_line({{"type", "done"}});
}

}  // namespace ferry::bench
