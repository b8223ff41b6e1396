#include "runtime/statistics.hpp"

namespace ferry {
namespace {

void add(std::uint64_t& sum, const std::uint64_t& counter) {
  sum += device::read_counter(counter);
}

}  // namespace

void add_up(RuntimeStatistics& sum, const device::GroupCounters& counters) {
  add(sum.calls, counters.calls);
  add(sum.batches, counters.batches);
  add(sum.doorbells, counters.doorbells);
  add(sum.parks, counters.parks);
  add(sum.staged_calls, counters.staged_calls);
  add(sum.staged_bytes, counters.staged_bytes);
  add(sum.served_calls, counters.served);
}

void add_up(RuntimeStatistics& sum, const device::cache::Counters& counters) {
  add(sum.cache.hits, counters.hits);
  add(sum.cache.misses, counters.misses);
  add(sum.cache.fills, counters.fills);
  add(sum.cache.fill_bytes, counters.fill_bytes);
  add(sum.cache.evictions, counters.evictions);
  add(sum.cache.write_backs, counters.write_backs);
  add(sum.cache.write_back_bytes, counters.write_back_bytes);
  add(sum.cache.waits, counters.waits);
  add(sum.cache.readahead_issued, counters.readahead_issued);
  add(sum.cache.readahead_used, counters.readahead_used);
  add(sum.cache.readahead_wasted, counters.readahead_wasted);
}

void add_up(RuntimeStatistics& sum, const server::Server& server) {
  for (unsigned loop = 0; loop < server.loops(); ++loop) {
    const server::LoopStatistics statistics = server.statistics(loop);
    sum.requests += statistics.requests;
    sum.refused_requests += statistics.refused;
    sum.bytes_read += statistics.bytes_read;
    sum.bytes_written += statistics.bytes_written;
    sum.inline_operations += statistics.storage.inline_operations;
    sum.engine_operations += statistics.storage.engine_operations;
    sum.pool_operations += statistics.storage.pool_operations;
    sum.server_parks += statistics.parks;
    const server::ThreadUsage usage = server.usage(loop);
    sum.server_cpu_ns += usage.cpu_ns;
    sum.server_voluntary_switches += usage.voluntary_switches;
    sum.server_involuntary_switches += usage.involuntary_switches;
  }
}

}  // namespace ferry
