#include "programs/storage_facts.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "programs/file_system.hpp"
#include "programs/layout_facts.hpp"
#include "programs/stored_file.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// Null if not striped or unknown.
Json layout_of(storage::SyncCalls& calls, const std::string& path) {
  storage::Layout layout;
  const std::int64_t result =
      calls.run({.kind = storage::Kind::path_layout, .path = path.c_str(), .layout = &layout});
  return result < 0 ? Json(nullptr) : layout_facts(layout);
}

}  // namespace

Json uri_facts(const std::string& uri) {
  const std::unique_ptr<storage::Storage> storage = storage::make_router();
  const storage::Description description = storage->describe_path(uri);
  const auto timeout = description.capabilities.request_timeout;
  Json facts = {{"uri", uri},
                {"kind", nullptr},
                {"size_bytes", nullptr},
                {"storage", description.name},
                {"engine", description.engine},
                {"facts", description.notes},
                {"limits", storage::limits(description.capabilities)},
                {"request_timeout_s", std::chrono::duration<double>(timeout).count()},
                {"layout", nullptr},
                {"errno", nullptr},
                {"problem", nullptr}};
  if (!description.problem.empty()) {
    facts["problem"] = description.problem;
    return facts;
  }
  storage::SyncCalls calls(*storage);
  storage::Operation status{.kind = storage::Kind::path_status, .path = uri.c_str()};
  const std::int64_t result = calls.run(status);
  if (result < 0) {
    facts["errno"] = -result;
    facts["problem"] =
        uri + ": " + std::strerror(static_cast<int>(-result)) + "; name a path that exists";
    return facts;
  }
  facts["kind"] = kind_of(status.status.mode);
  if (S_ISREG(status.status.mode)) facts["size_bytes"] = status.status.size_bytes;
  facts["layout"] = layout_of(calls, uri);
  return facts;
}

Json storages_of(const std::vector<std::string>& paths) {
  const std::shared_ptr<storage::Storage> clients = side_storage();
  std::set<std::string> seen;
  Json list = Json::array();
  for (const std::string& path : paths) {
    // Files side by side are reached in the same way.
    const std::size_t end = storage::path_end(path);
    const std::string folder = path.substr(0, path.rfind('/', end)) + path.substr(end);
    if (!is_uri(path) || !seen.insert(folder).second) continue;
    const storage::Description description = clients->describe_path(path);
    Json facts = {{"storage", description.name},
                  {"engine", description.engine},
                  {"facts", description.notes}};
    if (std::find(list.begin(), list.end(), facts) == list.end()) list.push_back(std::move(facts));
  }
  return list;
}

void add_mounted_facts(const std::string& path, Json& facts) {
  const std::unique_ptr<storage::Storage> storage = storage::make_router();
  storage::SyncCalls calls(*storage);
  facts["layout"] = layout_of(calls, path);
  // The runtime reports what applies to all paths.
  facts["served"]["notes"] = Json::array();
  const std::vector<std::string> everywhere = storage->describe().notes;
  for (const std::string& note : storage->describe_path(path).notes) {
    if (std::find(everywhere.begin(), everywhere.end(), note) == everywhere.end())
      facts["served"]["notes"].push_back(note);
  }
}

}  // namespace ferry::bench
