// Splits the machine's CPUs between device and server.
#pragma once

#include <ferry/runtime.hpp>

#include "base/cpus.hpp"

namespace ferry {

struct CpuPlan {
  CpuSet device_cpus;
  CpuSet server_cpus;
  CpuSet service_cpus;  // the last ones of the device's partition, or shared with its threads
  unsigned device_threads = 1;
  unsigned server_threads = 1;
  unsigned service_threads = 0;
  // Whether every such thread has its own CPU, so that spinning can help.
  bool device_may_spin = false;
  bool server_may_spin = false;
};

// `allowed` is not empty; `usable` counts whole CPUs of time. Throws ferry::Error (EINVAL) for
// forbidden CPUs, and for too few named ones for the services.
CpuPlan plan_cpus(const RuntimeOptions& options, const CpuSet& allowed, unsigned usable);

}  // namespace ferry
