// Directories and renames of PVFS2. The library moves a name without checks: a directory moved
// below itself is lost with its contents. The checks of rename(2) are here.
//
// Another client may change the tree between these checks and the renaming; the servers have no
// call for both.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include "storage/entry_names.hpp"
#include "storage/pvfs2/call.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

using pvfs2::Reference;

constexpr unsigned links_max = 40;      // as in the kernel
constexpr std::int32_t names_max = 32;  // of one call

bool same(const Reference& one, const Reference& other) {
  return one.handle == other.handle && one.file_system == other.file_system;
}

// The names of a path, to be looked up one after the other, before those that are left.
void put_in_front(const std::string& path, std::deque<std::string>& left) {
  std::deque<std::string> names;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t next = std::min(path.find('/', at), path.size());
    if (next > at) names.push_back(path.substr(at, next - at));
    at = next + 1;
  }
  left.insert(left.begin(), names.begin(), names.end());
}

}  // namespace

std::int64_t Pvfs2Call::rename() {
  if (pvfs2_address_of(parse_uri(new_path_)) != address_) return -EXDEV;
  Reference from;
  Status from_status;
  Entry old_entry;
  Entry new_entry;
  int error = find_entry(path_, old_entry);
  const std::int32_t file_system = file_system_;
  if (error == 0) error = find_entry(new_path_, new_entry);
  if (error == 0 && file_system_ != file_system) error = -EXDEV;
  if (error == 0) error = find(path_, false, from);
  if (error == 0) error = status_of(from, from_status);
  if (error != 0) return error;
  const bool moves_folder = S_ISDIR(from_status.mode);
  if (!moves_folder && LastName(parse_uri(new_path_).path).has_slash_behind) return -ENOTDIR;
  if (moves_folder) error = lies_below(from, new_entry);
  if (error == 0) error = may_replace(from, from_status);
  if (error != 0) return error == -EEXIST ? 0 : error;  // it has that name
  return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    return library.rename(old_entry.name.data(), old_entry.folder, new_entry.name.data(),
                          new_entry.folder, who, nullptr);
  });
}

// Checks the new path: -EEXIST if it is the renamed file.
int Pvfs2Call::may_replace(const Reference& from, const Status& from_status) {
  Reference to;
  Status status;
  int error = find_any(new_path_, false, to);
  if (error == 0 && same(from, to)) return -EEXIST;
  if (error == 0) error = status_of(to, status);
  if (error != 0) return error == -ENOENT ? 0 : error;
  if (!S_ISDIR(from_status.mode)) return S_ISDIR(status.mode) ? -EISDIR : 0;
  return S_ISDIR(status.mode) ? is_empty(to) : -ENOTDIR;
}

int Pvfs2Call::is_empty(const Reference& folder) {
  pvfs2::Listed listed;
  void (*release)(void*) = nullptr;
  const int error = ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    release = library.free_memory;
    return library.readdir(folder, pvfs2::list_start, 1, who, &listed, nullptr);
  });
  if (listed.names != nullptr) (release != nullptr ? release : &std::free)(listed.names);
  if (error != 0) return error;
  return listed.count == 0 ? 0 : -ENOTEMPTY;
}

int Pvfs2Call::link_target(const Reference& link, std::string& target) {
  return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    pvfs2::Attributes found;
    const int error =
        library.getattr(link, pvfs2::mask_link_target | pvfs2::mask_type, who, &found, nullptr);
    if (error != 0) return error;
    target = found.link_target == nullptr ? "" : found.link_target;
    library.release_attributes(&found);
    return 0;
  });
}

// -EINVAL if the entry's folder is `above` or below it; also if unknown, because a wrong guess
// would lose the tree. Directories do not know their parents, so the path is followed name by name
// from the root.
int Pvfs2Call::lies_below(const Reference& above, const Entry& entry) {
  Pvfs2Place place;
  if (const int error = place_of(entry.folder_path, place); error != 0) return error;
  std::deque<std::string> left;
  put_in_front(place.path, left);
  std::string at;  // without links
  Reference here;
  unsigned links = 0;
  if (const int error = look_up(place.file_system, "/", true, here); error != 0) return error;
  while (!left.empty()) {
    const std::string name = std::move(left.front());
    left.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      at.resize(at.empty() ? 0 : at.rfind('/'));
      continue;
    }
    std::string next = at;
    next.append("/").append(name);
    Status status;
    int error = look_up(place.file_system, next, false, here);
    if (error == 0) error = status_of(here, status);
    if (error != 0) return error;
    if (same(here, above)) return -EINVAL;
    if (!S_ISLNK(status.mode)) {
      at = next;
      continue;
    }
    std::string target;
    if (++links > links_max) return -ELOOP;
    error = link_target(here, target);
    if (error != 0) return error;
    // How the file system is mounted decides where an absolute path begins.
    if (target.empty() || target.front() == '/') return -EINVAL;
    put_in_front(target, left);
  }
  if (const int error = look_up(place.file_system, at.empty() ? "/" : at, false, here); error != 0)
    return error;
  return same(here, entry.folder) ? 0 : -EINVAL;
}

std::int64_t Pvfs2Call::make_directory() {
  Entry entry;
  if (const int error = find_entry(path_, entry); error != 0) return error;
  return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    pvfs2::Reference made;
    return library.mkdir(entry.name.data(), entry.folder, attributes_of_new(), who, &made, nullptr);
  });
}

// The library would remove either, by one call.
std::int64_t Pvfs2Call::remove(bool directory) {
  Reference reference;
  Status status;
  Entry entry;
  int error = find(path_, false, reference);
  if (error == 0) error = status_of(reference, status);
  if (error != 0) return error;
  if (S_ISDIR(status.mode) != directory) return directory ? -ENOTDIR : -EISDIR;
  error = find_entry(path_, entry);
  if (error != 0) return error;
  return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    return library.remove(entry.name.data(), entry.folder, who, nullptr);
  });
}

std::int64_t Pvfs2Call::list_directory() {
  pvfs2::Reference folder;
  Status status;
  int error = find(path_, true, folder);
  if (error == 0) error = status_of(folder, status);
  if (error != 0) return error;
  if (!S_ISDIR(status.mode)) return -ENOTDIR;
  if (!may(status, 4)) return -EACCES;
  std::vector<DirectoryEntry> found;
  for (std::uint64_t position = pvfs2::list_start; position != pvfs2::list_end;) {
    pvfs2::Listed listed;
    void (*release)(void*) = nullptr;
    error = ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
      release = library.free_memory;
      return library.readdir(folder, position, names_max, who, &listed, nullptr);
    });
    const std::unique_ptr<pvfs2::Name, void (*)(void*)> names(
        listed.names, release != nullptr ? release : &std::free);
    if (error != 0) return error;
    if (listed.count == 0) break;
    position = listed.position;
    for (std::uint32_t i = 0; i < listed.count; ++i) {
      const pvfs2::Name& name = names.get()[i];
      const std::string_view text(name.text, strnlen(name.text, sizeof name.text));
      if (is_dot_name(text)) continue;
      if (!is_entry_name(text)) return -EIO;
      DirectoryEntry entry{std::string(text), {}};
      error = status_of({name.handle, folder.file_system, 0}, entry.status);
      if (error == -ENOENT) continue;  // removed meanwhile
      if (error != 0) return error;
      found.push_back(std::move(entry));
    }
  }
  touch([&](Operation& operation) {
    std::move(found.begin(), found.end(), std::back_inserter(*operation.entries));
  });
  return 0;
}

}  // namespace ferry::storage
