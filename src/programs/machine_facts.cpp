#include "programs/machine_facts.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "base/machine.hpp"
#include "programs/file_system.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json machine_facts() {
  utsname names{};
  uname(&names);
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  std::string governor;
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") >> governor;
  const std::string flags = " " + cpuinfo_value("flags") + " ";
  return {{"kernel", std::string(names.sysname) + " " + names.release},
          {"architecture", names.machine},
          {"cpu_model", text_or_null(cpu_model())},
          {"cpus_allowed", to_string(allowed_cpus())},
          {"cpus_usable", usable_cpus()},
          {"virtual_machine", flags.find(" hypervisor ") != std::string::npos},
          {"cpu_governor", text_or_null(governor)},
          {"memory_bytes", page_bytes * pages},
          {"page_bytes", page_bytes}};
}

Json version_facts() {
  return {{"ferry", FERRY_VERSION},
          {"compiler", __VERSION__},
          {"nlohmann_json", std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." +
                                std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                                std::to_string(NLOHMANN_JSON_VERSION_PATCH)}};
}

Json runtime_facts(const RuntimeInfo& info, const char* device) {
  return {{"device", device},
          {"device_cpus", info.device_cpus},
          {"device_threads", info.device_threads},
          {"server_cpus", info.server_cpus},
          {"server_threads", info.server_threads},
          {"oversubscribed", info.oversubscribed},
          {"arena_bytes", info.arena_bytes},
          {"arena_pages", info.arena_pages},
          {"storage_engine", info.storage_engine},
          {"service", {{"cpus", info.service_cpus}, {"threads", info.service_threads}}},
          {"automatic_source", info.crossovers_source},
          {"notes", info.notes}};
}

Json file_systems_of(const std::vector<std::string>& paths) {
  std::set<std::string> folders;  // and block devices
  for (const std::string& path : paths) {
    if (storage::scheme_of(path) != storage::Scheme::posix) continue;
    if (std::error_code error; std::filesystem::is_block_file(path, error)) {
      folders.insert(path);
      continue;
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    folders.insert(folder.empty() ? "." : folder.string());
  }
  std::set<std::string> seen;
  Json list = Json::array();
  for (const std::string& folder : folders) {
    try {
      Json facts = file_system_facts(folder);
      if (seen.insert(facts["mount_point"]).second) list.push_back(std::move(facts));
    } catch (const std::system_error&) {
      continue;  // measuring there will report the problem
    }
  }
  return list;
}

}  // namespace ferry::bench
