// ferry-info: reports what this machine offers and how a path would be served. `[PATH]`. One JSON
// object, schema "ferry.info/2", on standard output; exit status 0, 1 (failed), 2 (wrong
// arguments).
#include <array>
#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include <ferry/ferry.hpp>

#include "programs/file_system.hpp"
#include "programs/gpu_facts.hpp"
#include "programs/json_lines.hpp"
#include "programs/machine_facts.hpp"
#include "programs/storage_facts.hpp"
#include "programs/stored_file.hpp"
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

// The storages' client libraries, each with the reason why it cannot be loaded, or null.
Json client_facts() {
  Json list = Json::array();
  for (const storage::ClientLibrary& client : storage::client_libraries()) {
    list.push_back({{"storage", client.storage},
                    {"library", client.file_name},
                    {"problem", text_or_null(client.problem)}});
  }
  return list;
}

Json facts_of(const std::string& path) {
  RuntimeOptions options;
  options.arena_bytes = std::uint64_t{2} << 20;
  options.storage_path = path;
  const Runtime runtime(options);
  Json facts = info_facts(runtime);
  if (path.empty()) {
    facts["clients"] = client_facts();
  } else if (is_uri(path)) {
    facts["storage"] = uri_facts(path);
  } else {
    facts["path"] = path_facts(path, facts["runtime"]["storage_engine"]);
    add_mounted_facts(path, facts["path"]);
  }
  return facts;
}

int run(int count, char** arguments) {
  if (count > 2) {
    std::fputs("usage: ferry-info [PATH]\n", stderr);
    return exit_wrong_arguments;
  }
  print_line(facts_of(count > 1 ? arguments[1] : ""));
  return 0;
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  return ferry::bench::run_reporting_errors("ferry-info",
                                            [&] { return ferry::bench::run(count, arguments); });
}
