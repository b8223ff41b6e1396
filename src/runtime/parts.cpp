#include "runtime/parts.hpp"

#include <cerrno>
#include <string>

namespace ferry {
namespace {

void add(std::uint64_t& sum, const std::uint64_t& counter) {
  sum += device::read_counter(counter);
}

}  // namespace

Buffer allocate_from(cpu::Heap& heap, std::uint64_t bytes, std::uint64_t alignment_bytes) {
  if (alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0) {
    throw Error(EINVAL, "alignment_bytes: a power of two");
  }
  void* data = heap.allocate(bytes, alignment_bytes);
  if (data == nullptr) {
    throw Error(ENOMEM, "the arena has no " + std::to_string(bytes) +
                            " bytes left in one piece (the largest has " +
                            std::to_string(heap.largest_free_bytes()) +
                            "); raise RuntimeOptions::arena_bytes");
  }
  return Buffer(data, bytes, [&heap](void* pointer) { heap.free(pointer); });
}

RuntimeInfo describe_settings(const Tuning& tuning, const storage::Description& storage) {
  const device::StorageTuning& main = tuning.main();
  RuntimeInfo info;
  info.page_bytes = tuning.options.page_bytes;
  info.crossovers = main.crossovers;
  info.crossovers_source = tuning.crossovers_source;
  info.readahead_bytes_max = main.readahead_bytes_max;
  info.queue_depth = tuning.queue_depth;
  info.profile = tuning.profile;
  info.storage_engine = storage.engine;
  info.notes = storage.notes;
  info.notes.insert(info.notes.end(), tuning.notes.begin(), tuning.notes.end());
  return info;
}

void add_up(RuntimeStatistics& sum, const device::GroupCounters& counters) {
  add(sum.calls, counters.calls);
  add(sum.batches, counters.batches);
  add(sum.doorbells, counters.doorbells);
  add(sum.parks, counters.parks);
  add(sum.staged_calls, counters.staged_calls);
  add(sum.staged_bytes, counters.staged_bytes);
  add(sum.served_calls, counters.served);
  add(sum.taken_back_calls, counters.taken_back);
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
