// The device `cuda`: measures cells in kernels on the first GPU.
#pragma once

#include <memory>

#include "harness/measured_device.hpp"

namespace ferry::bench {

// Throws as a DeviceMaker does.
std::unique_ptr<MeasuredDevice> make_gpu_device(const Plan& plan, const RuntimeOptions& options);

}  // namespace ferry::bench
