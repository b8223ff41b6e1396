// One file's pages in the device's page cache: drops or fills them before a measurement, and
// derives their state from counters.
#pragma once

#include <cstdint>
#include <string>

#include <ferry/ferry.hpp>

#include "harness/layout.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

enum class DeviceCacheState : std::uint8_t {
  cold,        // no byte that was read came from it
  warm,        // all did
  unverified,  // some did, or the counters do not say
};

// A file that was changed just now has no version yet (FileStatus), and without one the next open
// would drop what is read into the cache: waits until it has one, on file systems that have any.
// Files of a URI have a version at once or never.
void wait_for_version(const std::string& path);

// Drops what the cache has of the files that the part lies in; where the cell is cold and they are
// named by a URI, also what the storage's client on this machine has. Throws ferry::Error.
void empty_device_cache(const Cell& cell, const ThreadPart& part, DeviceThread& thread);

// Holds a file open for one thread and reads the part of that thread into the cache, in which it
// stays while this lives: where a file has no version, its last close would drop its pages. The
// pages of a file that is written anew for each repeat are dropped at the end, so that the next one
// finds room without evictions.
class WarmPart {
 public:
  // Throws ferry::Error.
  WarmPart(const Cell& cell, const ThreadPart& part, DeviceThread& thread, unsigned char* buffer);
  ~WarmPart();
  WarmPart(const WarmPart&) = delete;
  WarmPart& operator=(const WarmPart&) = delete;

 private:
  device::FileCalls<device::ThreadGroup>& files_;
  int file_;
  bool drops_pages_;
};

// The state before a repeat that read, or wrote again, so many bytes of `cell`: `filling` was
// counted while the cache was filled (nothing where it was not), `timed` over the timed region.
DeviceCacheState device_cache_state(const Cell& cell, std::uint64_t read_bytes,
                                    const RuntimeStatistics& filling,
                                    const RuntimeStatistics& timed);

const char* name_of(DeviceCacheState state);

}  // namespace ferry::bench
