#include "programs/info_facts.hpp"

#include <array>

#include <nlohmann/json.hpp>

#include "programs/gpu_facts.hpp"
#include "programs/machine_facts.hpp"
#include "programs/runtime_facts.hpp"
#include "storage/router.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// In the order of device::Placement.
constexpr std::array<const char*, 4> placement_names = {"host", "compute", "service", "automatic"};

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

Json info_facts(const Runtime& runtime) {
  const RuntimeOptions defaults;
  const RuntimeInfo info = runtime.info();
  return {{"schema", "ferry.info/2"},
          {"machine", machine_facts()},
          {"versions", version_facts()},
          {"runtime", runtime_facts(info, "cpu")},
          {"default_placement", placement_names[static_cast<std::size_t>(defaults.placement)]},
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
            {"placements", placement_names},
            {"interfaces", {"ferry", "posix", "mmap", "uring"}}}},
          {"gpu", gpu_facts()},
          {"clients", nullptr},
          {"path", nullptr},
          {"storage", nullptr}};
}

Json client_facts() {
  Json list = Json::array();
  for (const storage::ClientLibrary& client : storage::client_libraries()) {
    list.push_back({{"storage", client.storage},
                    {"library", client.file_name},
                    {"problem", client.problem.empty() ? Json() : Json(client.problem)}});
  }
  return list;
}

}  // namespace ferry::bench
