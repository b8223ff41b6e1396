// The machine and the settings in force, as results record them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

#include "harness/plan.hpp"
#include "harness/runtimes.hpp"

namespace ferry::bench {

// Of a measurement: machine, versions, runtimes, and the file systems that the cells' files lie on.
nlohmann::ordered_json environment_facts(const Plan& plan, const Runtimes& runtimes);

}  // namespace ferry::bench
