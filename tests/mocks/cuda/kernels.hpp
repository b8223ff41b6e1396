// Kernels on the mock GPU: functions of a library of their own, which the mock driver calls for a
// launch and which run the device code on threads of the host.
#pragma once

#include <cstdint>

namespace ferry::cuda::mock {

// `parameter` is the kernel's one parameter, a device address; such a thread finds what lies at a
// device address when it adds `offset_bytes`. Returns when all blocks have ended.
using PlayedKernel = void(std::uintptr_t parameter, unsigned blocks, long offset_bytes);

}  // namespace ferry::cuda::mock
