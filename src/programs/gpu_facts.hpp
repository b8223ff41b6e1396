// Facts for `ferry info` about GPUs, and how bulk copies into their memory work.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

// Loads the CUDA driver if there is one.
nlohmann::ordered_json gpu_facts();

}  // namespace ferry::bench
