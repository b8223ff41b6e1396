#include "harness/report.hpp"

#include <nlohmann/json.hpp>

#include "harness/programs.hpp"
#include "harness/usage.hpp"
#include "programs/json_lines.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

Json latency_json(const Cell& cell, const LatencyHistogram& found) {
  const std::uint64_t samples = found.samples();
  if (samples == 0) return nullptr;
  Json latency = {{"p50", found.percentile(500)},
                  {"p90", found.percentile(900)},
                  {"p99", found.percentile(990)},
                  {"p99_9", found.percentile(999)},
                  {"max", found.longest_ns},
                  {"samples", samples},
                  {"one_call_in", latency_stride(cell)}};
  if (!cell.latency) return latency;
  Json& histogram = latency["histogram"] = Json::array();
  for (unsigned i = 0; i < LatencyHistogram::buckets; ++i) {
    const std::uint64_t begin = LatencyHistogram::begin_of(i);
    if (found.calls[i] != 0)
      histogram.push_back({begin, begin + LatencyHistogram::width_of(i), found.calls[i]});
  }
  return latency;
}

template <class Counters, std::size_t N>
Json counters_json(const Counters& counters, const std::array<NamedCounter<Counters>, N>& names,
                   std::size_t shown = N) {
  Json object = Json::object();
  for (std::size_t i = 0; i < shown; ++i)
    object[names[i].name] = counters.*names[i].member;
  return object;
}

Json or_null(const std::optional<std::uint64_t>& count) {
  return count ? Json(*count) : Json(nullptr);
}

Json storage_json(const StorageCounters& counters) {
  return {{"process_read_bytes", or_null(counters.process_read_bytes)},
          {"process_write_bytes", or_null(counters.process_write_bytes)},
          {"device_read_bytes", or_null(counters.device_read_bytes)},
          {"device_write_bytes", or_null(counters.device_write_bytes)},
          {"network_read_bytes", or_null(counters.network_read_bytes)}};
}

LatencyHistogram all_latencies(const Sample& sample) {
  LatencyHistogram all = sample.latencies;
  all.add(sample.read_latencies);
  return all;
}

// What those who make the calls did: threads, a GPU's warps, ranks that stream.
Json of_calls(const Cell& cell, const Sample& sample) {
  Json facts = {{"deadline_reached", sample.deadline_reached},
                {"latency_ns", latency_json(cell, all_latencies(sample))}};
  if (cell.mixes()) {
    facts["mixed"] = {{"read_operations", sample.read_operations},
                      {"read_latency_ns", latency_json(cell, sample.read_latencies)},
                      {"write_latency_ns", latency_json(cell, sample.latencies)}};
  }
  return facts;
}

// What the threads did, also of a GPU's warps.
Json of_threads(const Cell& cell, const Sample& sample) {
  Json facts = of_calls(cell, sample);
  const Json timed = {
      {"flush_ns", sample.flush_ns},
      {"first_done_ns", sample.first_done_ns},
      {"last_done_ns", sample.last_done_ns},
      {"thread_operations_per_s",
       {{"min", sample.rates.min}, {"median", sample.rates.median}, {"max", sample.rates.max}}},
      {"callers", usage_json(sample.callers)}};
  facts.update(timed);
  return facts;
}

// What was counted for the whole process.
Json counted_json(const Sample& sample, bool has_cache) {
  return {{"server", usage_json(sample.others)},
          {"storage", storage_json(sample.storage)},
          {"counters", counters_json(sample.counted, runtime_counters, runtime_counters_shown)},
          {"cache", has_cache ? counters_json(sample.counted.cache, cache_counters) : nullptr}};
}

Json sample_json(const Cell& cell, unsigned repeat, const Sample& sample,
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
  return line;
}

}  // namespace

Json usage_json(const Usage& usage) {
  return {{"user_cpu_ns", usage.user_cpu_ns},
          {"system_cpu_ns", usage.system_cpu_ns},
          {"voluntary_switches", usage.voluntary_switches},
          {"involuntary_switches", usage.involuntary_switches}};
}

void report_environment(const Json& facts) {
  Json line = {{"type", "environment"}};
  line.update(facts);
  print_line(line);
}

void report_verified(const Cell& cell) {
  print_line({{"type", "verified"}, {"cell", cell.id}});
}

void report_sample(const Cell& cell, unsigned repeat, const Sample& sample,
                   std::optional<CacheState> state, std::optional<std::uint64_t> pattern_seed) {
  Json line = sample_json(cell, repeat, sample, state, pattern_seed);
  if (sample.of_ranks) {
    line.update(*sample.of_ranks);
    if (cell.streams) line.update(of_calls(cell, sample));
  } else {
    line.update(of_threads(cell, sample));
    line.update(counted_json(sample, cell.is_cached()));
    line["compute_ns"] = cell.computes() ? Json(sample.compute_ns) : Json(nullptr);
    line["device_cache_state"] =
        sample.device_cache ? Json(name_of(*sample.device_cache)) : Json(nullptr);
  }
  print_line(line);
}

void report_job(const Cell& cell, unsigned repeat, const Sample& sample,
                std::uint64_t group_begin_ns, std::optional<CacheState> state,
                std::optional<std::uint64_t> pattern_seed) {
  Json line = sample_json(cell, repeat, sample, state, pattern_seed);
  line.update(of_threads(cell, sample));
  line["begin_ns"] = sample.begin_ns - group_begin_ns;
  print_line(line);
}

void report_group(const Cell& cell, unsigned repeat, const Sample& all,
                  std::uint64_t group_begin_ns) {
  Json line = {{"type", "sample"},
               {"cell", cell.group},
               {"repeat", repeat},
               {"begin_ns", all.begin_ns - group_begin_ns},
               {"elapsed_ns", all.elapsed_ns},
               {"io_ns", all.io_ns},
               {"bytes", all.bytes},
               {"operations", all.operations},
               {"callers", usage_json(all.callers)}};
  line.update(counted_json(all, cell.with_cache));
  print_line(line);
}

void report_metadata(const Cell& cell, unsigned repeat, const MetadataSample& sample) {
  for (std::size_t i = 0; i < sample.phases.size(); ++i) {
    const MetadataSample::Phase& phase = sample.phases[i];
    print_line({{"type", "sample"},
                {"cell", cell.id},
                {"repeat", repeat},
                {"phase", metadata_phase_names[i]},
                {"files", sample.files},
                {"elapsed_ns", phase.elapsed_ns},
                {"latency_ns", latency_json(cell, phase.latencies)},
                {"callers", usage_json(phase.callers)}});
  }
}

void report_done() {
  print_line({{"type", "done"}});
}

}  // namespace ferry::bench
