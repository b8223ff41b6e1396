// The kernel's counters for the whole machine, all processes included.
#pragma once

#include <cstdint>

namespace ferry::bench {

struct SystemCounters {
  std::uint64_t context_switches = 0;
  std::uint64_t user_cpu_ns = 0;    // in steps of a clock tick
  std::uint64_t system_cpu_ns = 0;  // likewise
  std::uint64_t network_bytes = 0;  // sent, over all interfaces, the loopback one among them
  std::uint64_t network_packets = 0;

  SystemCounters operator-(const SystemCounters& earlier) const;
};

SystemCounters system_counters();

}  // namespace ferry::bench
