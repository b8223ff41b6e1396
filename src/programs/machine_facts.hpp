// Where something is measured: what results say of the machine, of versions and of file systems.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

nlohmann::ordered_json machine_facts();
nlohmann::ordered_json version_facts();
// One for each mount that a file lies on, or will. URIs are on none.
nlohmann::ordered_json file_systems_of(const std::vector<std::string>& paths);
// Null for an empty text.
nlohmann::ordered_json text_or_null(const std::string& text);

}  // namespace ferry::bench
