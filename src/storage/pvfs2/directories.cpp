// Directories of PVFS2.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include "storage/entry_names.hpp"
#include "storage/pvfs2/call.hpp"

namespace ferry::storage {
namespace {

constexpr std::int32_t names_max = 32;  // of one call

}  // namespace

std::int64_t Pvfs2Call::make_directory() {
  Entry entry;
  if (const int error = find_entry(path_, entry); error != 0) return error;
  return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    pvfs2::Reference made;
    return library.mkdir(entry.name.data(), entry.folder, attributes_of_new(), who, &made, nullptr);
  });
}

std::int64_t Pvfs2Call::remove_directory() {
  pvfs2::Reference reference;
  Status status;
  Entry entry;
  int error = find(path_, false, reference);
  if (error == 0) error = status_of(reference, status);
  if (error != 0) return error;
  if (!S_ISDIR(status.mode)) return -ENOTDIR;  // the library would remove it
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
