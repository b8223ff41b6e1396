// The commands of ferry-bench and ferry-bench-mpi: run a plan on a device, or remove files.
#pragma once

#include "harness/measured_device.hpp"

namespace ferry::bench {

// The program of this name. One JSON object per line on standard output. Returns the exit status:
// 0, 1 (failed), 2 (wrong arguments or plan), 130 (interrupted).
int bench(const char* name, int count, char** arguments, const DeviceMaker& make_device);

}  // namespace ferry::bench
