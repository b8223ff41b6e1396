// Facts about the measuring environment: machine, versions and file systems.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

nlohmann::ordered_json machine_facts();
nlohmann::ordered_json version_facts();
// One per mount of the files, existing or not. URIs have none.
nlohmann::ordered_json file_systems_of(const std::vector<std::string>& paths);
// Null for an empty text.
nlohmann::ordered_json text_or_null(const std::string& text);

}  // namespace ferry::bench
