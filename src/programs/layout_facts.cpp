#include "programs/layout_facts.hpp"

#include <cstdint>

#include <nlohmann/json.hpp>

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

Json part_facts(const storage::LayoutPart& part) {
  Json facts = {{"begin_bytes", part.begin_bytes}, {"end_bytes", nullptr}};
  if (part.end_bytes != storage::to_the_end) facts["end_bytes"] = part.end_bytes;
  facts.update(layout_facts(storage::as_layout(part)));
  facts.erase(storage::object_bytes_name);
  return facts;
}

}  // namespace

Json layout_facts(const storage::Layout& layout) {
  Json facts = {{"stripe_bytes", nullptr},
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
  if (!layout.parts.empty()) facts["parts"] = Json::array();
  for (const storage::LayoutPart& part : layout.parts)
    facts["parts"].push_back(part_facts(part));
  return facts;
}

storage::Layout read_layout(const Json& request) {
  storage::Layout layout;
  layout.stripe_bytes = request.value("stripe_bytes", layout.stripe_bytes);
  layout.stripe_count = request.value("stripe_count", layout.stripe_count);
  layout.first_server = request.value("first_server", layout.first_server);
  layout.pool = request.value("pool", layout.pool);
  layout.at_most = request.value("at_most", layout.at_most);
  for (const char* name :
       {storage::object_bytes_name, storage::overstriping_name, storage::all_servers_name})
    if (request.contains(name)) layout.extras[name] = request[name];
  std::uint64_t begin_bytes = 0;
  for (const Json& asked : request.value("parts", Json::array())) {
    storage::LayoutPart part = storage::as_part(read_layout(asked), begin_bytes,
                                                asked.value("end_bytes", storage::to_the_end));
    begin_bytes = part.end_bytes;
    layout.parts.push_back(std::move(part));
  }
  return layout;
}

namespace {

// For one part or a whole layout. `known_late`: the servers are not known yet.
void add_reduced(const std::string& where, const Json& asked, const Json& granted, bool known_late,
                 Json& names) {
  for (const auto& [name, value] : asked.items()) {
    // A part's beginning follows from the previous part, a file over all servers reports their
    // number, and overstriping is reported only where it was needed.
    const bool is_reported_otherwise = name == "begin_bytes" || name == storage::all_servers_name ||
                                       name == storage::overstriping_name ||
                                       (name == "first_server" && known_late);
    if (value.is_null() || value.is_array() || is_reported_otherwise) continue;
    const auto found = granted.find(name);
    const bool is_granted = found != granted.end() && *found == value;
    if (!is_granted) names.push_back(where + name);
  }
}

}  // namespace

Json reduced_facts(const storage::Layout& asked, const storage::Layout& granted) {
  if (asked.parts.size() == 1 && granted.parts.empty())
    return reduced_facts(storage::as_layout(asked.parts.front()), granted);
  const Json wanted = layout_facts(asked);
  const Json got = layout_facts(granted);
  Json names = Json::array();
  add_reduced("", wanted, got, false, names);
  if (asked.parts.empty()) return names;
  if (asked.parts.size() != granted.parts.size()) {
    names.push_back("parts");
    return names;
  }
  for (std::size_t i = 0; i < asked.parts.size(); ++i) {
    const std::string where = "parts[" + std::to_string(i) + "].";
    const bool known_late = i > 0 && granted.parts[i].first_server < 0;
    add_reduced(where, wanted["parts"][i], got["parts"][i], known_late, names);
  }
  return names;
}

}  // namespace ferry::bench
