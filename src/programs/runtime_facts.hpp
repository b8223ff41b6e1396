// A runtime's settings in force, for results and `ferry info`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

namespace ferry::bench {

// `device` is its name: cpu or cuda.
nlohmann::ordered_json runtime_facts(const RuntimeInfo& info, const char* device);

}  // namespace ferry::bench
