// Kernels on the mock GPU: functions of a library, which the mock driver calls for a launch and
// which run device code on host threads.
#pragma once

#include <cstdint>

namespace ferry::cuda::mock {

// `parameter` is the kernel's only parameter, a device address; such a thread adds `offset_bytes`
// to a device address to access it. Returns when all blocks have ended.
using PlayedKernel = void(std::uintptr_t parameter, unsigned blocks, long offset_bytes);

}  // namespace ferry::cuda::mock
