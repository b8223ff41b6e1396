// The device's page cache of one file: emptying or filling it before a measurement, and what its
// counters prove about the state it was in.
#pragma once

#include <cstdint>

#include <ferry/ferry.hpp>

#include "tools/layout.hpp"
#include "tools/plan.hpp"

namespace ferry::bench {

enum class DeviceCacheState : std::uint8_t {
  cold,        // no byte that was read came from it
  warm,        // all did
  unverified,  // some did, or the counters do not say
};

// Drops what the cache has of the file that the part lies in. Throws ferry::Error.
void empty_device_cache(const Cell& cell, const Part& part, DeviceThread& thread);

// Holds a file open for one thread and reads the part of that thread into the cache, in which it
// stays while this lives: where a file has no version, its last close would drop its pages.
class WarmPart {
 public:
  // Throws ferry::Error.
  WarmPart(const Cell& cell, const Part& part, DeviceThread& thread, unsigned char* buffer);
  ~WarmPart() { files_.close(file_); }
  WarmPart(const WarmPart&) = delete;
  WarmPart& operator=(const WarmPart&) = delete;

 private:
  device::FileCalls<device::ThreadGroup>& files_;
  int file_;
};

// The state before a repeat that read so many bytes of `cell`: `filling` was counted while the
// cache was filled (nothing where it was not), `timed` over the timed region.
DeviceCacheState device_cache_state(const Cell& cell, std::uint64_t read_bytes,
                                    const RuntimeStatistics& filling,
                                    const RuntimeStatistics& timed);

const char* name_of(DeviceCacheState state);

}  // namespace ferry::bench
