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

template <class Counters, std::size_t N>
Json counters_json(const Counters& counters, const std::array<NamedCounter<Counters>, N>& names,
                   std::size_t shown = N) {
  Json object = Json::object();
  for (std::size_t i = 0; i < shown; ++i)
    object[names[i].name] = counters.*names[i].member;
  return object;
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

// Also of a GPU's warps.
Json of_threads(const Cell& cell, const Sample& sample) {
  Json object = {
      {"deadline_reached", sample.deadline_reached},
      {"flush_ns", sample.flush_ns},
      {"compute_ns", nullptr},
      {"first_done_ns", sample.first_done_ns},
      {"last_done_ns", sample.last_done_ns},
      {"latency_ns", latency_json(cell, sample)},
      {"callers", usage_json(sample.callers)},
      {"server", usage_json(sample.others)},
      {"storage", storage_json(sample.storage)},
      {"device_cache_state", nullptr},
      {"counters", counters_json(sample.counted, runtime_counters, runtime_counters_shown)},
      {"cache", nullptr}};
  if (cell.computes()) object["compute_ns"] = sample.compute_ns;
  if (sample.device_cache) object["device_cache_state"] = name_of(*sample.device_cache);
  if (cell.is_cached()) object["cache"] = counters_json(sample.counted.cache, cache_counters);
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
