#include "programs/runtime_facts.hpp"

#include <nlohmann/json.hpp>

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// What placement `automatic` decides by, if reported: "built-in" or "profile".
template <class Info>
Json automatic_source([[maybe_unused]] const Info& info) {
  if constexpr (requires { info.crossovers_source; }) return info.crossovers_source;
  return nullptr;
}

// The cores reserved for placement `service`, if reported.
template <class Info>
Json service_facts([[maybe_unused]] const Info& info) {
  if constexpr (requires { info.service_cpus; })
    return {{"cpus", info.service_cpus}, {"threads", info.service_threads}};
  return nullptr;
}

}  // namespace

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
          {"service", service_facts(info)},
          {"automatic_source", automatic_source(info)},
          {"notes", info.notes}};
}

}  // namespace ferry::bench
