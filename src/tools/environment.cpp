#include "tools/environment.hpp"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "storage/router.hpp"
#include "tools/gpu_facts.hpp"
#include "tools/machine_facts.hpp"
#include "tools/storage_facts.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// What placement `automatic` decides from, where the runtime says so: "built-in" or "profile".
template <class Info>
Json automatic_source([[maybe_unused]] const Info& info) {
  if constexpr (requires { info.crossovers_source; }) return info.crossovers_source;
  return nullptr;
}

// The cores set aside for placement `service`, where the runtime says so.
template <class Info>
Json service_facts([[maybe_unused]] const Info& info) {
  if constexpr (requires { info.service_cpus; })
    return {{"cpus", info.service_cpus}, {"threads", info.service_threads}};
  return nullptr;
}

Json cache_facts(std::uint64_t cache_bytes, std::uint32_t page_bytes) {
  if (cache_bytes == 0) return nullptr;
  return {{"cache_bytes", cache_bytes}, {"page_bytes", page_bytes}};
}

Json runtime_facts(const RuntimeInfo& info, Device device) {
  return {{"device", name_of(device)},
          {"device_cpus", info.device_cpus},
          {"device_threads", info.device_threads},
          {"server_cpus", info.server_cpus},
          {"server_threads", info.server_threads},
          {"oversubscribed", info.oversubscribed},
          {"arena_bytes", info.arena_bytes},
          {"arena_pages", info.arena_pages},
          {"storage_engine", info.storage_engine},
          {"service", service_facts(info)},
          {"automatic_source", automatic_source(info)},
          {"notes", info.notes}};
}

Json profile_facts(const ProfileInfo& profile) {
  return {{"path", text_or_null(profile.path)},
          {"storage", text_or_null(profile.storage)},
          {"applies", profile.applies},
          {"why", profile.why},
          {"storages", profile.storages}};
}

Json bytes_or_never(std::uint64_t bytes) {
  return bytes == device::Crossovers::never ? Json("never") : Json(bytes);
}

Json tuning_facts(const RuntimeInfo& info) {
  const device::Crossovers& crossovers = info.crossovers;
  return {{"source", info.crossovers_source},
          {"page_bytes", info.page_bytes},
          {"readahead_bytes", info.readahead_bytes_max},
          {"server_threads", info.server_threads},
          {"queue_depth", info.queue_depth != 0 ? Json(info.queue_depth) : Json(nullptr)},
          {"crossovers",
           {{"host_read_bytes_min", bytes_or_never(crossovers.host_read_bytes_min)},
            {"host_stream_read_bytes_min", bytes_or_never(crossovers.host_stream_read_bytes_min)},
            {"host_write_bytes_min", bytes_or_never(crossovers.host_write_bytes_min)},
            {"service_read_bytes_min", bytes_or_never(crossovers.service_read_bytes_min)},
            {"service_write_bytes_min", bytes_or_never(crossovers.service_write_bytes_min)},
            {"bypasses_max", crossovers.bypasses_max}}}};
}

}  // namespace

Json environment_facts(const Plan& plan, const Runtimes& runtimes) {
  std::vector<std::string> paths;
  for (const Cell& cell : plan.cells)
    paths.push_back(cell.path);
  Json list = Json::array();
  for (const Runtimes::Entry& entry : runtimes.all()) {
    Json facts = runtime_facts(entry.device->info(), plan.device);
    facts["page_cache"] = cache_facts(entry.cache_bytes, entry.page_bytes);
    list.push_back(std::move(facts));
  }
  return {{"machine", machine_facts()},
          {"versions", version_facts()},
          {"runtimes", std::move(list)},
          {"file_systems", file_systems_of(paths)},
          {"storages", storages_of(paths)}};
}

Json info_facts(const Runtime& runtime) {
  const RuntimeOptions defaults;
  const RuntimeInfo info = runtime.info();
  return {{"schema", "ferry.info/2"},
          {"machine", machine_facts()},
          {"versions", version_facts()},
          {"runtime", runtime_facts(info, Device::cpu)},
          {"default_placement", name_of(defaults.placement)},
          {"page_cache",
           {{"cache_bytes", defaults.cache_bytes},
            {"page_bytes", info.page_bytes},
            {"page_bytes_min", device::cache::page_bytes_min},
            {"page_bytes_max", device::cache::page_bytes_max}}},
          {"profile", profile_facts(info.profile)},
          {"tuning", tuning_facts(info)},
          {"built_in",
           {{"devices", {"cpu", "cuda"}},
            {"storages", storage::built_in()},
            {"placements", {"host", "compute", "service", "automatic"}},
            {"interfaces", {"ferry", "posix", "mmap", "uring"}}}},
          {"gpu", gpu_facts()},
          {"path", nullptr},
          {"storage", nullptr}};
}

}  // namespace ferry::bench
