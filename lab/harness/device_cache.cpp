#include "harness/device_cache.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include "harness/file_access.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {

void wait_for_version(const std::string& path) {
  if (is_uri(path)) return;
  constexpr std::chrono::milliseconds settled{150};
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;  // opening it will tell
  const auto changed = std::chrono::seconds(status.st_ctim.tv_sec) +
                       std::chrono::nanoseconds(status.st_ctim.tv_nsec);
  const auto age = std::chrono::system_clock::now().time_since_epoch() - changed;
  if (age < settled) std::this_thread::sleep_for(settled - age);
}

namespace {

int open_settled(DeviceThread& thread, const std::string& path, int flags) {
  wait_for_version(path);
  return thread.files.open(path.c_str(), flags);
}

}  // namespace

WarmPart::WarmPart(const Cell& cell, const ThreadPart& part, DeviceThread& thread,
                   unsigned char* buffer)
    : files_(thread.files),
      file_(open_settled(thread, file_path(cell, part.file),
                         O_RDONLY | (cell.direct ? O_DIRECT : 0))),
      drops_pages_(cell.rewrite) {
  if (file_ < 0) throw Error(-file_, "opening " + file_path(cell, part.file));
  // The calling core's placement puts every page there; `automatic` may choose to pass the cache.
  files_.use(device::Placement::compute);
  const std::uint64_t bytes = cell.call_bytes();
  auto moved = static_cast<std::int64_t>(bytes);
  for (std::uint64_t call = 0; call < cell.calls_per_thread() && moved > 0; ++call)
    moved = files_.pread(file_, buffer, bytes, static_cast<std::int64_t>(part.offset_of(call)));
  files_.use(cell.placement);
  if (moved == static_cast<std::int64_t>(bytes)) return;
  files_.close(file_);
  throw Error(moved < 0 ? static_cast<int>(-moved) : EIO, "reading " + file_path(cell, part.file));
}

WarmPart::~WarmPart() {
  if (drops_pages_) files_.evict(file_);  // what cannot be written back shows in the contents
  files_.close(file_);
}

void empty_device_cache(const Cell& cell, const ThreadPart& part, DeviceThread& thread) {
  // A storage's client drops what it keeps of a file that is opened so (storage/ceph/call.cpp).
  const int flags = open_flags(cell) | (cell.cold && is_uri(cell.path) ? O_DIRECT : 0);
  const unsigned first = place_of(cell, part, part.offset_of(0)).file;
  for (unsigned i = 0; i < files_of_part(cell); ++i) {
    const std::string path = file_path(cell, first + i);
    const int file = thread.files.open(path.c_str(), flags);
    if (file < 0) throw Error(-file, "opening " + path);
    const int error = thread.files.evict(file);
    thread.files.close(file);
    if (error != 0) throw Error(-error, "writing back " + path);
  }
}

DeviceCacheState device_cache_state(const Cell& cell, std::uint64_t read_bytes,
                                    const RuntimeStatistics& filling,
                                    const RuntimeStatistics& timed) {
  const device::cache::Counters& counters = timed.cache;
  if (cell.warm) {
    // Nothing brings pages in while a file is written: what was found had been there. Reads may
    // find what was read ahead of them.
    const bool stayed = cell.operation == MeasuredOperation::write ||
                        (filling.cache.evictions == 0 && counters.evictions == 0);
    return stayed && counters.misses == 0 ? DeviceCacheState::warm : DeviceCacheState::unverified;
  }
  // Pages larger than the transfers, and pages that were read ahead, are found by later calls: such
  // hits are no sign of warmth where the storage gave every byte within the timed region.
  const bool fetched = timed.bytes_read >= read_bytes;
  const bool missed = counters.misses > 0 || counters.hits == 0;
  return fetched && missed ? DeviceCacheState::cold : DeviceCacheState::unverified;
}

const char* name_of(DeviceCacheState state) {
  constexpr std::array names = {"cold", "warm", "unverified"};
  return names[static_cast<std::size_t>(state)];
}

}  // namespace ferry::bench
