// What `ferry info` says of the storage of a path: of one that names no file of this machine all,
// of others the layout.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

// Which storage serves the URI and how, what it cannot do, and why it cannot be used, if so.
nlohmann::ordered_json uri_facts(const std::string& uri);

// Of each different storage that URIs among the paths name: its name, engine, and how it is
// reached.
nlohmann::ordered_json storages_of(const std::vector<std::string>& paths);

// Adds to the facts of a path of a mounted file system its layout, null where nothing is striped in
// a way that Ferry knows, and what the storage cannot use there, and why.
void add_mounted_facts(const std::string& path, nlohmann::ordered_json& facts);

}  // namespace ferry::bench
