// Facts about the environment: machine, versions, a runtime's settings in force, file systems.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <ferry/runtime.hpp>

namespace ferry::bench {

nlohmann::ordered_json machine_facts();
nlohmann::ordered_json version_facts();
// `device` is its name: cpu or cuda.
nlohmann::ordered_json runtime_facts(const RuntimeInfo& info, const char* device);
// One per mount of the files, existing or not. URIs have none.
nlohmann::ordered_json file_systems_of(const std::vector<std::string>& paths);
// Null for an empty text.
nlohmann::ordered_json text_or_null(const std::string& text);

}  // namespace ferry::bench
