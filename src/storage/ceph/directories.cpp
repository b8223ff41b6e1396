// Directories of CephFS.
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "storage/ceph/call.hpp"
#include "storage/entry_names.hpp"

namespace ferry::storage {

int CephCall::list_directory(CephMount& mount, const std::string& path) {
  const CephLibrary& library = mount.library();
  ceph::Directory* directory = nullptr;
  if (const int error = library.ceph_opendir(mount.get(), path.c_str(), &directory); error != 0) {
    return error;
  }
  std::vector<DirectoryEntry> found;
  int result = 0;
  for (;;) {
    dirent next{};
    ceph::Statx status;
    result = library.ceph_readdirplus_r(mount.get(), directory, &next, &status, ceph::basic_members,
                                        AT_SYMLINK_NOFOLLOW, nullptr);
    if (result <= 0) break;
    const std::string_view name = next.d_name;
    if (is_dot_name(name)) continue;
    if (!is_entry_name(name)) {
      result = -EIO;
      break;
    }
    found.push_back({std::string(name), {}});
    if (S_ISREG(status.mode)) {
      // Attributes returned with the name may be older than another client's latest writes.
      const std::string one = path + '/' + found.back().name;
      const int error = library.ceph_statx(mount.get(), one.c_str(), &status, ceph::basic_members,
                                           AT_SYMLINK_NOFOLLOW);
      if (error == -ENOENT) {
        found.pop_back();  // removed meanwhile
        continue;
      }
      if (error != 0) {
        result = error;
        break;
      }
    }
    found.back().status = to_status(status, mount.address());
    found.back().status.version = 0;  // not asked for
  }
  library.ceph_closedir(mount.get(), directory);
  if (result < 0) return result;
  touch([&](Operation& operation) {
    std::move(found.begin(), found.end(), std::back_inserter(*operation.entries));
  });
  return 0;
}

}  // namespace ferry::storage
