// What `ferry info` says of a path that names no file of this machine.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

// Whether the path is a URI of a storage.
bool is_uri(const std::string& path);

// Which storage serves the URI and how, what it cannot do, and why it cannot be used, if so.
nlohmann::ordered_json uri_facts(const std::string& uri);

}  // namespace ferry::bench
