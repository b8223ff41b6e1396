// ferry-info: reports what this machine offers and how a path would be served. One JSON object on
// standard output; exit status 0, 1 (failed), 2 (wrong arguments).
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include <ferry/ferry.hpp>

#include "programs/file_system.hpp"
#include "programs/info_facts.hpp"
#include "programs/storage_facts.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usage =
    "Usage: ferry-info [PATH]\n"
    "Prints one JSON object. The ferry command runs it as ferry info.\n";
constexpr int exit_failed = 1;
constexpr int exit_wrong_arguments = 2;

void print(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(errno, "standard output");
  }
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

int report_error(int error_number, const std::string& message) {
  print({{"type", "error"}, {"cell", ""}, {"errno", error_number}, {"message", message}});
  return exit_failed;
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
  try {
    print(facts_of(path));
    return 0;
  } catch (const Error& error) {
    // The reason why a device cannot be used is a complete sentence.
    const int number = error.code().value();
    const bool is_sentence = number == ENODEV || number == ENOSYS;
    return report_error(number, is_sentence ? error.reason() : error.what());
  } catch (const std::system_error& error) {
    return report_error(error.code().value(), error.what());
  } catch (const std::bad_alloc&) {
    return report_error(ENOMEM, "out of memory");
  }
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  try {
    return ferry::bench::run(count, arguments);
  } catch (const std::exception& error) {  // standard output is closed, too
    std::fprintf(stderr, "ferry-info: %s\n", error.what());
    return 1;
  }
}
