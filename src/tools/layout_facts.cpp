#include "tools/layout_facts.hpp"

#include <nlohmann/json.hpp>

namespace ferry::bench {

nlohmann::ordered_json layout_facts(const storage::Layout& layout) {
  nlohmann::ordered_json facts = {{"stripe_bytes", nullptr},
                                  {"stripe_count", nullptr},
                                  {"object_bytes", nullptr},
                                  {"first_server", nullptr},
                                  {"pool", nullptr}};
  if (layout.stripe_bytes > 0) facts["stripe_bytes"] = layout.stripe_bytes;
  if (layout.stripe_count > 0) facts["stripe_count"] = layout.stripe_count;
  if (layout.first_server >= 0) facts["first_server"] = layout.first_server;
  if (!layout.pool.empty()) facts["pool"] = layout.pool;
  for (const auto& [name, value] : layout.extras)
    facts[name] = value;
  return facts;
}

}  // namespace ferry::bench
