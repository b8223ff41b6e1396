// Makes, removes and lists directories of an NFS server.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "storage/entry_names.hpp"
#include "storage/nfs/paths.hpp"

namespace ferry::storage {
namespace {

// Size of one reply. Servers may send less.
constexpr count3 reply_bytes_max = 64 << 10;

}  // namespace

int NfsCalls::make_directory(const Found& where, std::uint32_t mode) {
  if (where.name.size() > nfs_name_bytes_max) return -ENAMETOOLONG;
  MKDIR3args arguments{};
  arguments.where = nfs_entry(where.parent, where.name);
  arguments.attributes.mode.set_it = 1;
  arguments.attributes.mode.value = mode;
  const int result = perform<MKDIR3res>(library_.rpc_nfs3_mkdir_async, arguments, done);
  // It was made by the call whose answer got lost.
  return result == -EEXIST && repeated_ ? 0 : result;
}

int NfsCalls::remove_directory(const Found& what) {
  RMDIR3args arguments{};
  arguments.object = nfs_entry(what.parent, what.name);
  const int result = perform<RMDIR3res>(library_.rpc_nfs3_rmdir_async, arguments, done);
  return result == -ENOENT && repeated_ ? 0 : result;  // as for remove()
}

// One reply: entries, with type 0 if the server does not report their attributes, and where to
// continue.
int NfsCalls::list_some(const NfsHandle& directory, READDIRPLUS3args& from, bool& all,
                        std::vector<DirectoryEntry>& entries) {
  from.dir = directory.argument();
  return perform<READDIRPLUS3res>(
      library_.rpc_nfs3_readdirplus_async, from, [&](const READDIRPLUS3res& reply) {
        const READDIRPLUS3resok& found = reply.resok;
        std::memcpy(from.cookieverf, found.cookieverf, sizeof from.cookieverf);
        all = found.reply.eof != 0;
        for (const entryplus3* entry = found.reply.entries; entry != nullptr;
             entry = entry->nextentry) {
          from.cookie = entry->cookie;
          const std::string_view name = entry->name;
          if (is_dot_name(name)) continue;
          if (!is_entry_name(name)) return -EIO;
          DirectoryEntry added{std::string(name), {}};
          if (entry->name_attributes.attributes_follow != 0) {
            added.status = to_attributes(entry->name_attributes.attributes).status;
          }
          entries.push_back(std::move(added));
        }
        // A server that sends nothing would be asked for ever.
        return found.reply.entries == nullptr && !all ? -EIO : 0;
      });
}

int NfsCalls::list_directory(const NfsHandle& directory, std::vector<DirectoryEntry>& entries) {
  READDIRPLUS3args from{};
  from.dircount = from.maxcount = reply_bytes_max;
  std::vector<DirectoryEntry> found;
  for (bool all = false; !all;) {
    if (const int error = list_some(directory, from, all, found); error != 0) return error;
  }
  for (DirectoryEntry& entry : found) {
    if (entry.status.mode != 0) continue;
    NfsHandle object;
    NfsAttributes attributes;
    const int error = lookup(directory, entry.name, object, attributes);
    if (error != 0 && error != -ENOENT) return error;
    entry.status = attributes.status;  // still nothing if it was removed meanwhile
  }
  std::copy_if(std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()),
               std::back_inserter(entries),
               [](const DirectoryEntry& entry) { return entry.status.mode != 0; });
  return 0;
}

}  // namespace ferry::storage
