#include "programs/runtime_facts.hpp"

#include <nlohmann/json.hpp>

namespace ferry::bench {

nlohmann::ordered_json runtime_facts(const RuntimeInfo& info, const char* device) {
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

}  // namespace ferry::bench
