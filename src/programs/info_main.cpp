// ferry-info: reports what this machine offers and how a path would be served. One JSON object on
// standard output; exit status 0, 1 (failed), 2 (wrong arguments).
#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include <ferry/ferry.hpp>

#include "programs/file_system.hpp"
#include "programs/info_facts.hpp"
#include "programs/json_lines.hpp"
#include "programs/storage_facts.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usage =
    "Usage: ferry-info [PATH]\n"
    "Prints one JSON object. The ferry command runs it as ferry info.\n";

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
  const std::string path = count > 1 ? arguments[1] : "";
  if (count == 2 && path == "--help") {
    std::fputs(usage, stdout);
    return 0;
  }
  if (count > 2) {
    std::fputs(usage, stderr);
    return exit_wrong_arguments;
  }
  print_line(facts_of(path));
  return 0;
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  return ferry::bench::run_reporting_errors("ferry-info",
                                            [&] { return ferry::bench::run(count, arguments); });
}
