#include "tools/device_cache.hpp"

#include <cerrno>
#include <string>

#include "tools/file_access.hpp"

namespace ferry::bench {

WarmPart::WarmPart(const Cell& cell, DeviceThread& thread, unsigned char* buffer)
    : files_(thread.files), file_(files_.open(cell.path.c_str(), open_flags(cell))) {
  if (file_ < 0) throw Error(-file_, "opening " + cell.path);
  // The calling core's placement puts every page there; `automatic` may choose to pass the cache.
  files_.use(device::Placement::compute);
  const std::uint64_t bytes = cell.call_bytes();
  const std::uint64_t begin = thread.index * cell.part_bytes();
  std::int64_t moved = static_cast<std::int64_t>(bytes);
  for (std::uint64_t at = 0; at < cell.part_bytes() && moved > 0; at += bytes)
    moved = files_.pread(file_, buffer, bytes, static_cast<std::int64_t>(begin + at));
  files_.use(cell.placement);
  if (moved == static_cast<std::int64_t>(bytes)) return;
  files_.close(file_);
  throw Error(moved < 0 ? static_cast<int>(-moved) : EIO, "reading " + cell.path);
}

DeviceCacheState device_cache_state(const Cell& cell, const RuntimeStatistics& filling,
                                    const RuntimeStatistics& timed) {
  const device::cache::Counters& counters = timed.cache;
  if (cell.warm) {
    const bool stayed = filling.cache.evictions == 0 && counters.evictions == 0;
    return stayed && counters.misses == 0 ? DeviceCacheState::warm : DeviceCacheState::unverified;
  }
  // Pages larger than the transfers, and pages that were read ahead, are found by later calls: such
  // hits are no sign of warmth where the storage gave every byte within the timed region.
  const bool fetched = timed.bytes_read >= cell.total_bytes;
  const bool missed = counters.misses > 0 || counters.hits == 0;
  return fetched && missed ? DeviceCacheState::cold : DeviceCacheState::unverified;
}

const char* name_of(DeviceCacheState state) {
  switch (state) {
    case DeviceCacheState::cold:
      return "cold";
    case DeviceCacheState::warm:
      return "warm";
    case DeviceCacheState::unverified:
      break;
  }
  return "unverified";
}

}  // namespace ferry::bench
