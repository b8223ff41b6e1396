#include "interpose/serving_settings.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace ferry::run {
namespace {

constexpr std::array<std::string_view, 10> system_folders{
    "/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev", "/run"};

bool lies_in(std::string_view path, std::string_view folder) {
  return path.substr(0, folder.size()) == folder &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

const char* value_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace

const ServingSettings* ServingSettings::from_environment() {
  const char* socket = value_of("FERRY_RUN_SOCKET");
  if (socket == nullptr) return nullptr;
  try {
    auto settings = std::make_unique<ServingSettings>();
    settings->socket = socket;
    if (const char* map = value_of("FERRY_RUN_MAP"); map != nullptr) settings->read_map(map);
    if (const char* summary = value_of("FERRY_RUN_SUMMARY"); summary != nullptr) {
      settings->wants_summary = true;
      settings->summary = summary;
    }
    return settings.release();
  } catch (const std::bad_alloc&) {
    return nullptr;  // the kernel serves all
  }
}

void ServingSettings::read_map(const std::string& text) {
  has_map = true;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    std::string prefix(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    if (prefix.empty()) continue;
    if (prefix[0] != '/') {
      error = "FERRY_RUN_MAP: '" + prefix + "' is not an absolute path, and is left out";
      continue;
    }
    // The kernel tells names of open files without links.
    char resolved[PATH_MAX];
    if (realpath(prefix.c_str(), resolved) != nullptr) prefix = resolved;
    while (!prefix.empty() && prefix.back() == '/')
      prefix.pop_back();
    prefixes.push_back(std::move(prefix));
  }
}

bool ServingSettings::takes(const char* path) const {
  if (path[0] != '/') return false;
  const auto holds = [&](std::string_view folder) { return lies_in(path, folder); };
  if (has_map) return std::any_of(prefixes.begin(), prefixes.end(), holds);
  return std::none_of(system_folders.begin(), system_folders.end(), holds);
}

}  // namespace ferry::run
