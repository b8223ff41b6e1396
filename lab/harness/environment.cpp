#include "harness/environment.hpp"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "programs/machine_facts.hpp"
#include "programs/runtime_facts.hpp"
#include "programs/storage_facts.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

Json cache_facts(std::uint64_t cache_bytes, std::uint32_t page_bytes) {
  if (cache_bytes == 0) return nullptr;
  return {{"cache_bytes", cache_bytes}, {"page_bytes", page_bytes}};
}

}  // namespace

Json environment_facts(const Plan& plan, const Runtimes& runtimes) {
  std::vector<std::string> paths;
  for (const Cell& cell : plan.cells)
    paths.push_back(cell.path);
  Json list = Json::array();
  for (const Runtimes::Entry& entry : runtimes.all()) {
    Json facts = runtime_facts(entry.device->info(), name_of(plan.device));
    facts["page_cache"] = cache_facts(entry.cache_bytes, entry.page_bytes);
    list.push_back(std::move(facts));
  }
  return {{"machine", machine_facts()},
          {"versions", version_facts()},
          {"runtimes", std::move(list)},
          {"file_systems", file_systems_of(paths)},
          {"storages", storages_of(paths)}};
}

}  // namespace ferry::bench
