// A file's layout as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "storage/layout.hpp"

namespace ferry::bench {

// Null for settings left to the storage or unknown.
nlohmann::ordered_json layout_facts(const storage::Layout& layout);

// A request with the same members, and `at_most`. What it leaves out is left to the storage.
storage::Layout read_layout(const nlohmann::ordered_json& request);

// The names of settings that were not granted as asked; of parts as "parts[1].stripe_count", or
// "parts" if the parts themselves differ.
nlohmann::ordered_json reduced_facts(const storage::Layout& asked, const storage::Layout& granted);

}  // namespace ferry::bench
