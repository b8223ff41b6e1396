// What the operating system charges to threads.
#pragma once

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

// What `later` counts more than `earlier`.
RuntimeStatistics difference(const RuntimeStatistics& later, const RuntimeStatistics& earlier);

// Nanoseconds of the steady clock.
std::uint64_t now_ns();

}  // namespace ferry::bench
