// The processors this process may use, and where its threads run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace ferry {

// CPU numbers as the kernel counts them, in ascending order.
using CpuSet = std::vector<int>;

// The CPUs this process may run on (its affinity mask).
CpuSet allowed_cpus();

// How many CPUs this process may use: the minimum of the affinity mask and the cgroup's quota, at
// least 1. Threads beyond this number must not spin.
unsigned usable_cpus();

// The NUMA node of a CPU; 0 on machines with one node or an unknown layout.
int numa_node(int cpu);

// Parses "0-3,8" and prints it. Throws std::invalid_argument for anything else.
CpuSet parse_cpus(std::string_view text);
std::string to_string(const CpuSet& cpus);

// Binds the calling thread; an empty set changes nothing. Returns false if the kernel refused.
bool run_this_thread_on(const CpuSet& cpus);
bool run_this_thread_on_cpu(int cpu);
void name_this_thread(const char* name);
// The kernel's number of the calling thread. For wheels: glibc 2.28 has no gettid().
pid_t number_of_this_thread();

}  // namespace ferry
