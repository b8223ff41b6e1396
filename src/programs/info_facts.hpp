// Facts for `ferry info` about the machine.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

namespace ferry::bench {

// Machine, runtime, placements, page cache, profile and tuning, built-in features. Schema
// "ferry.info/2".
nlohmann::ordered_json info_facts(const Runtime& runtime);

// The storages' client libraries, each with the reason why it cannot be loaded, or null.
nlohmann::ordered_json client_facts();

}  // namespace ferry::bench
