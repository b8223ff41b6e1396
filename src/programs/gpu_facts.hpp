// What `ferry info` says of GPUs, and of the way that bulk copies into their memory take.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

// Loads the CUDA driver where there is one.
nlohmann::ordered_json gpu_facts();

}  // namespace ferry::bench
