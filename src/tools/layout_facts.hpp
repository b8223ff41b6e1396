// A file's layout as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "storage/layout.hpp"

namespace ferry::bench {

// Null for what is left to the storage, or what it does not tell.
nlohmann::ordered_json layout_facts(const storage::Layout& layout);

}  // namespace ferry::bench
