// Facts for `ferry info` about a path's storage: all for a URI, the layout for mounted files.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

// The storage that serves the URI, how, its limits, and why it cannot be used, if so.
nlohmann::ordered_json uri_facts(const std::string& uri);

// For each storage among the paths' URIs: name, engine, and how it is reached.
nlohmann::ordered_json storages_of(const std::vector<std::string>& paths);

// Adds to the facts of a mounted path its layout (null if not striped in a known way) and what the
// storage cannot use there, and why.
void add_mounted_facts(const std::string& path, nlohmann::ordered_json& facts);

}  // namespace ferry::bench
