#include "mpiio/places.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "storage/uri.hpp"

namespace ferry::mpiio {
namespace {

// Without the prefix by which ROMIO is told a driver ("ufs:", "nfs:", "lustre:"): Ferry finds out
// by itself.
std::string without_driver(const std::string& path) {
  for (const char* driver :
       {"daos:", "gpfs:", "lustre:", "nfs:", "panfs:", "quobytefs:", "testfs:", "ufs:", "xfs:"}) {
    if (path.starts_with(driver)) return path.substr(std::strlen(driver));
  }
  return path;
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

}  // namespace

NamedFile place_of(const std::string& path) {
  if (storage::scheme_of(path) != storage::Scheme::posix) return {path, true};
  const std::string plain = without_driver(path);
  const std::string whole = absolute(plain);
  const char* map = std::getenv("FERRY_MPIIO_MAP");
  std::istringstream lines(map != nullptr ? map : "");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string folder = line.substr(0, equals) + "/";
    if (!whole.starts_with(folder)) continue;
    std::string uri = line.substr(equals + 1);
    std::size_t end = storage::path_end(uri);
    if (end > 0 && uri[end - 1] == '/') uri.erase(--end, 1);
    return {uri.insert(end, "/" + storage::escaped(whole.substr(folder.size()))), true};
  }
  return {plain, false};
}

}  // namespace ferry::mpiio
