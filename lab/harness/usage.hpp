// CPU time and other resources that the operating system charges to threads.
#pragma once

#include <array>
#include <cstdint>

#include <ferry/ferry.hpp>

namespace ferry::bench {

struct Usage {
  std::uint64_t user_cpu_ns = 0;
  std::uint64_t system_cpu_ns = 0;
  std::uint64_t voluntary_switches = 0;
  std::uint64_t involuntary_switches = 0;

  Usage& operator+=(const Usage& other);
  Usage operator-(const Usage& earlier) const;
};

// Of the calling thread, since it started.
Usage thread_usage();
// Of the whole process, those of its threads that have ended and the kernel's workers included. The
// kernel brings a thread that runs elsewhere up to date at its next tick.
Usage process_usage();
// What is left of `process` without `callers`: their sum is exact, the split into user and system
// time only as good as the kernel's.
Usage others(const Usage& process, const Usage& callers);

// The page cache's counters, with the names that results give them.
struct NamedCounter {
  const char* name;
  std::uint64_t device::cache::Counters::*member;
};
inline constexpr std::array<NamedCounter, 11> cache_counters = {{
    {"hits", &device::cache::Counters::hits},
    {"misses", &device::cache::Counters::misses},
    {"fills", &device::cache::Counters::fills},
    {"fill_bytes", &device::cache::Counters::fill_bytes},
    {"evictions", &device::cache::Counters::evictions},
    {"write_backs", &device::cache::Counters::write_backs},
    {"write_back_bytes", &device::cache::Counters::write_back_bytes},
    {"waits", &device::cache::Counters::waits},
    {"readahead_issued", &device::cache::Counters::readahead_issued},
    {"readahead_used", &device::cache::Counters::readahead_used},
    {"readahead_wasted", &device::cache::Counters::readahead_wasted},
}};

// What `later` counts more than `earlier`.
RuntimeStatistics difference(const RuntimeStatistics& later, const RuntimeStatistics& earlier);

// Nanoseconds of the steady clock.
std::uint64_t now_ns();

}  // namespace ferry::bench
