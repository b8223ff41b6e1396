// A file's layout as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "storage/layout.hpp"

namespace ferry::bench {

// Null for what is left to the storage, or what it does not tell.
nlohmann::ordered_json layout_facts(const storage::Layout& layout);

// The names of what was asked for and is not what was granted; of parts as "parts[1].stripe_count",
// or "parts" where there are none or others.
nlohmann::ordered_json reduced_facts(const storage::Layout& asked, const storage::Layout& granted);

}  // namespace ferry::bench
