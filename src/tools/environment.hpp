// The machine and the settings in force, as results and `ferry info` record them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

#include "tools/plan.hpp"

namespace ferry::bench {

// Of a measurement: machine, versions, runtime, and the file systems that the cells' files lie on.
nlohmann::ordered_json environment_facts(const Plan& plan, const Runtime& runtime);

// For `ferry info`: machine, runtime, what is built in. Schema "ferry.info/1".
nlohmann::ordered_json info_facts(const Runtime& runtime);

}  // namespace ferry::bench
