// What the kernel counts of this process's calls, and of the whole machine.
#pragma once

#include <cstdint>

namespace ferry::bench::mpi {

// Of the machine, everybody's together.
struct SystemCounters {
  std::uint64_t context_switches = 0;
  std::uint64_t user_cpu_ns = 0;    // in steps of a clock tick
  std::uint64_t system_cpu_ns = 0;  // likewise
  std::uint64_t network_bytes = 0;  // sent, over all interfaces, the loopback one among them
  std::uint64_t network_packets = 0;

  SystemCounters operator-(const SystemCounters& earlier) const;
};

SystemCounters system_counters();

// System calls of this process that read or wrote, on whatever descriptor.
struct CallCounters {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;

  CallCounters operator-(const CallCounters& earlier) const;
};

CallCounters call_counters();

}  // namespace ferry::bench::mpi
