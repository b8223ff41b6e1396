#include "storage/posix/directory.hpp"

#include <cerrno>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>

#include "storage/posix/file.hpp"

namespace ferry::storage {

std::int64_t list_directory(const char* path, std::vector<DirectoryEntry>& entries) {
  const auto close = [](DIR* open) { closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> directory(opendir(path), close);
  if (directory == nullptr) return -errno;
  std::vector<DirectoryEntry> found;
  for (;;) {
    errno = 0;
    const dirent* next = readdir(directory.get());  // NOLINT(concurrency-mt-unsafe): own stream
    if (next == nullptr) break;
    const std::string_view name = next->d_name;
    if (name == "." || name == "..") continue;
    DirectoryEntry entry{std::string(name), {}};
    const std::int64_t error =
        get_status(dirfd(directory.get()), entry.name.c_str(), AT_SYMLINK_NOFOLLOW, entry.status);
    if (error == -ENOENT) continue;  // removed meanwhile
    if (error != 0) return error;
    found.push_back(std::move(entry));
  }
  if (errno != 0) return -errno;
  std::move(found.begin(), found.end(), std::back_inserter(entries));
  return 0;
}

}  // namespace ferry::storage
