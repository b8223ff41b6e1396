// What `ferry info` says of the machine.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

namespace ferry::bench {

// Machine, runtime, placements, page cache, profile and tuning, what is built in. Schema
// "ferry.info/2".
nlohmann::ordered_json info_facts(const Runtime& runtime);

// The client libraries of storages, each with why it cannot be loaded, or null.
nlohmann::ordered_json client_facts();

}  // namespace ferry::bench
