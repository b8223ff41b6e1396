// A runtime's settings in force, as results and `ferry info` show them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

namespace ferry::bench {

// `device` is its name: cpu or cuda.
nlohmann::ordered_json runtime_facts(const RuntimeInfo& info, const char* device);

}  // namespace ferry::bench
