#include "storage/nfs/paths.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include <sys/stat.h>

#include "base/times.hpp"
#include "storage/entry_names.hpp"

namespace ferry::storage {
namespace {

constexpr std::chrono::milliseconds pause_between_tries{100};
constexpr int links_max = 40;  // as on Linux
constexpr std::uint32_t transfer_bytes_max = std::uint32_t{1} << 20;
constexpr std::uint32_t transfer_bytes_least = 4096;
// Of one reply of a listing. Servers may send less.
constexpr count3 reply_bytes_max = 64 << 10;

std::int64_t nanoseconds(const nfstime3& time) {
  return std::int64_t{time.seconds} * 1'000'000'000 + time.nseconds;
}

mode_t type_bits(ftype3 type) {
  switch (type) {
    case NF3REG:
      return S_IFREG;
    case NF3DIR:
      return S_IFDIR;
    case NF3BLK:
      return S_IFBLK;
    case NF3CHR:
      return S_IFCHR;
    case NF3LNK:
      return S_IFLNK;
    case NF3SOCK:
      return S_IFSOCK;
    case NF3FIFO:
      return S_IFIFO;
  }
  return 0;
}

// Prepends the components of a path to the rest to walk.
void prepend(std::deque<std::string>& rest, const std::string& path) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at && path.compare(at, end - at, ".") != 0) {
      names.push_back(path.substr(at, end - at));
    }
    at = end + 1;
  }
  rest.insert(rest.begin(), names.begin(), names.end());
}

}  // namespace

diropargs3 nfs_entry(const NfsHandle& directory, const std::string& name) {
  diropargs3 arguments{};
  arguments.dir = directory.argument();
  arguments.name = const_cast<char*>(name.c_str());
  return arguments;
}

bool lies_under(const std::string& path, const std::string& root) {
  if (root == "/") return true;
  return path.compare(0, root.size(), root) == 0 &&
         (path.size() == root.size() || path[root.size()] == '/');
}

NfsCalls::NfsCalls(const NfsLibrary& library, const NfsAddress& address, NfsRpc& rpc, bool patient)
    : library_(library),
      address_(address),
      rpc_(rpc),
      patient_(patient),
      server_hash_(std::hash<std::string>()(address.host) ^ address.nfs_port),
      deadline_(NfsClock::now() + address.timeout) {}

// After a connection error. Returns false if no time or no hope is left.
bool NfsCalls::may_try_again(int error) {
  if (error != -ECONNRESET && error != -ECONNREFUSED && error != -EAGAIN) return false;
  if (error == -ECONNREFUSED && !patient_) return false;
  if (NfsClock::now() + pause_between_tries >= deadline_) return false;
  std::this_thread::sleep_for(pause_between_tries);
  return true;
}

// ---- exports -----------------------------------------------------------------------------------

int NfsCalls::find_export(const std::string& path, NfsExport& found) {
  NfsRpc rpc(library_, address_);
  for (;;) {
    int result = rpc.connect(mount_program, mount_version, address_.mount_port, deadline_);
    if (result == 0) {
      found = NfsExport{};
      result = rpc.call<exports>(
          [&](rpc_context* to, rpc_cb callback, void* data) {
            return library_.rpc_mount3_export_async(to, callback, data);
          },
          [&](const exports& list) {
            for (const exportnode* node = list; node != nullptr; node = node->ex_next) {
              const std::string name = node->ex_dir;
              found.all.push_back(name);
              if (lies_under(path, name) && name.size() > found.path.size()) found.path = name;
            }
            return found.path.empty() ? -ENOENT : 0;
          },
          deadline_);
    }
    if (result == 0) result = mount(rpc, found);
    if (result == 0) result = limits_of(found);
    if (result == 0 || !may_try_again(result)) return result;
  }
}

int NfsCalls::mount(NfsRpc& rpc, NfsExport& found) {
  return rpc.call<mountres3>(
      [&](rpc_context* to, rpc_cb callback, void* data) {
        return library_.rpc_mount3_mnt_async(to, callback, const_cast<char*>(found.path.c_str()),
                                             data);
      },
      [&](const mountres3& reply) {
        if (reply.fhs_status != MNT3_OK)
          return library_.mountstat3_to_errno(static_cast<int>(reply.fhs_status));
        const fhandle3& handle = reply.mountinfo.fhandle;
        nfs_fh3 root{};
        root.data.data_len = handle.fhandle3_len;
        root.data.data_val = handle.fhandle3_val;
        found.root = NfsHandle(root);
        return 0;
      },
      deadline_);
}

int NfsCalls::limits_of(NfsExport& found) {
  FSINFO3args arguments{};
  arguments.fsroot = found.root.argument();
  return perform<FSINFO3res>(
      library_.rpc_nfs3_fsinfo_async, arguments, [&](const FSINFO3res& reply) {
        const FSINFO3resok& info = reply.resok;
        found.read_bytes_max = std::clamp(info.rtmax, transfer_bytes_least, transfer_bytes_max);
        found.write_bytes_max = std::clamp(info.wtmax, transfer_bytes_least, transfer_bytes_max);
        return 0;
      });
}

NfsAttributes NfsCalls::to_attributes(const fattr3& from) const {
  NfsAttributes to;
  to.type = from.type;
  // Larger files than a position can reach do not exist, whatever a server says. The kernel's
  // client does the same.
  constexpr std::uint64_t size_max = std::numeric_limits<std::int64_t>::max();
  to.status.size_bytes = std::min(from.size, size_max);
  to.status.allocated_bytes = from.used;
  to.status.inode = from.fileid;
  // Servers choose these numbers on their own; the highest bit keeps them apart from the kernel's.
  to.status.device = (from.fsid ^ server_hash_) | (std::uint64_t{1} << 63);
  to.status.accessed_ns = nanoseconds(from.atime);
  to.status.modified_ns = nanoseconds(from.mtime);
  to.status.changed_ns = nanoseconds(from.ctime);
  to.status.mode = (from.mode & 07777) | type_bits(from.type);
  to.status.links = from.nlink;
  to.status.owner = from.uid;
  to.status.group = from.gid;
  to.status.block_bytes = transfer_bytes_max;
  return to;
}

// ---- files -------------------------------------------------------------------------------------

int NfsCalls::get_attributes(const NfsHandle& handle, NfsAttributes& attributes) {
  GETATTR3args arguments{};
  arguments.object = handle.argument();
  return perform<GETATTR3res>(library_.rpc_nfs3_getattr_async, arguments,
                              [&](const GETATTR3res& reply) {
                                attributes = to_attributes(reply.resok.obj_attributes);
                                return 0;
                              });
}

int NfsCalls::set_size(const NfsHandle& handle, std::uint64_t bytes,
                       const std::shared_ptr<LateChanges>& changes) {
  SETATTR3args arguments{};
  arguments.object = handle.argument();
  arguments.new_attributes.size.set_it = 1;
  arguments.new_attributes.size.value = bytes;
  return perform<SETATTR3res>(library_.rpc_nfs3_setattr_async, arguments, done, changes);
}

int NfsCalls::set_attributes(const NfsHandle& handle, const NewAttributes& to) {
  SETATTR3args arguments{};
  arguments.object = handle.argument();
  sattr3& set = arguments.new_attributes;
  if (to.mode) set.mode = {1, *to.mode};
  if (to.owner) set.uid = {1, *to.owner};
  if (to.group) set.gid = {1, *to.group};
  const auto set_time = [](auto& time, const std::optional<std::int64_t>& ns) {
    if (!ns) return;
    const bool now = *ns == NewAttributes::now;
    time.set_it = now ? SET_TO_SERVER_TIME : SET_TO_CLIENT_TIME;
    if (now) return;
    const timespec since = timespec_of(std::max<std::int64_t>(*ns, 0));  // the protocol has no sign
    time.value.seconds = static_cast<std::uint32_t>(since.tv_sec);
    time.value.nseconds = static_cast<std::uint32_t>(since.tv_nsec);
  };
  set_time(set.atime, to.accessed_ns);
  set_time(set.mtime, to.modified_ns);
  return perform<SETATTR3res>(library_.rpc_nfs3_setattr_async, arguments, done);
}

int NfsCalls::allowed(const NfsHandle& handle, unsigned wanted) {
  ACCESS3args arguments{};
  arguments.object = handle.argument();
  arguments.access = wanted;
  return perform<ACCESS3res>(library_.rpc_nfs3_access_async, arguments,
                             [&](const ACCESS3res& reply) {
                               return (reply.resok.access & wanted) == wanted ? 0 : -EACCES;
                             });
}

std::int64_t NfsCalls::write(NfsFile& file, const char* data, std::size_t bytes,
                             std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    WRITE3args arguments{};
    arguments.file = file.handle.argument();
    arguments.offset = offset + done;
    arguments.count =
        static_cast<count3>(std::min<std::size_t>(bytes - done, file.write_bytes_max));
    arguments.stable = file.synchronous ? FILE_SYNC : UNSTABLE;
    arguments.data.data_len = arguments.count;
    arguments.data.data_val = const_cast<char*>(data) + done;
    const int written = perform<WRITE3res>(
        library_.rpc_nfs3_write_async, arguments,
        [&](const WRITE3res& reply) {
          const WRITE3resok& answer = reply.resok;
          if (answer.committed == UNSTABLE) (*file.writes)->acknowledged(answer.verf);
          // No server writes more than it got.
          return answer.count == 0 ? -EIO
                                   : static_cast<int>(std::min(answer.count, arguments.count));
        },
        file.changes);
    if (written < 0) return done > 0 ? static_cast<std::int64_t>(done) : written;
    done += static_cast<std::size_t>(written);
  }
  return static_cast<std::int64_t>(done);
}

// ---- paths -------------------------------------------------------------------------------------

int NfsCalls::lookup(const NfsHandle& directory, const std::string& name, NfsHandle& object,
                     NfsAttributes& attributes) {
  if (name.size() > nfs_name_bytes_max) return -ENAMETOOLONG;
  LOOKUP3args arguments{};
  arguments.what = nfs_entry(directory, name);
  bool told = false;
  const int result =
      perform<LOOKUP3res>(library_.rpc_nfs3_lookup_async, arguments, [&](const LOOKUP3res& reply) {
        const LOOKUP3resok& found = reply.resok;
        object = NfsHandle(found.object);
        told = found.obj_attributes.attributes_follow != 0;
        if (told) attributes = to_attributes(found.obj_attributes.attributes);
        return 0;
      });
  return result != 0 || told ? result : get_attributes(object, attributes);
}

int NfsCalls::read_link(const NfsHandle& link, std::string& text) {
  READLINK3args arguments{};
  arguments.symlink = link.argument();
  return perform<READLINK3res>(library_.rpc_nfs3_readlink_async, arguments,
                               [&](const READLINK3res& reply) {
                                 text = reply.resok.data;
                                 return 0;
                               });
}

int NfsCalls::walk(const NfsExport& from, const std::string& path, bool follow, Found& found) {
  std::deque<std::string> rest;
  prepend(rest, path.substr(from.path == "/" ? 0 : from.path.size()));
  const LastName last_name(path);
  const bool directory_wanted = last_name.wants_directory();
  follow = follow || last_name.is_none();
  found = Found{};
  found.object = from.root;
  found.exists = true;
  int links = 0;
  if (const int error = get_attributes(from.root, found.attributes); error != 0) return error;
  while (!rest.empty()) {
    if (found.attributes.type != NF3DIR) return -ENOTDIR;
    const std::string name = rest.front();
    rest.pop_front();
    found.parent = found.object;
    found.name = name;
    const int error = lookup(found.parent, name, found.object, found.attributes);
    if (error == -ENOENT && rest.empty()) {
      found.exists = false;
      return directory_wanted ? -ENOENT : 0;
    }
    if (error != 0) return error;
    if (found.attributes.type != NF3LNK || (rest.empty() && !follow)) continue;
    if (++links > links_max) return -ELOOP;
    std::string target;
    if (const int failed = read_link(found.object, target); failed != 0) return failed;
    found.object = found.parent;
    found.attributes.type = NF3DIR;
    if (!target.empty() && target.front() == '/') {
      // A path on the server; anything outside the export is unreachable.
      if (!lies_under(target, from.path)) return -EXDEV;
      target = target.substr(from.path == "/" ? 0 : from.path.size());
      found.object = from.root;
    }
    prepend(rest, target);
  }
  return directory_wanted && found.attributes.type != NF3DIR ? -ENOTDIR : 0;
}

int NfsCalls::create(const Found& where, bool exclusive, std::uint32_t mode, NfsHandle& made) {
  if (where.name.size() > nfs_name_bytes_max) return -ENAMETOOLONG;
  CREATE3args arguments{};
  arguments.where = nfs_entry(where.parent, where.name);
  std::array<char, create_verifier_bytes> unique{};
  if (exclusive) {
    // The server knows a repeated call by this number, so that one whose answer got lost does not
    // find the file that it made itself.
    std::random_device random;
    for (char& byte : unique)
      byte = static_cast<char>(random());
    arguments.how.mode = EXCLUSIVE;
    std::copy(unique.begin(), unique.end(), arguments.how.createhow3_u.verf);
  } else {
    arguments.how.mode = UNCHECKED;
    arguments.how.createhow3_u.obj_attributes.mode.set_it = 1;
    arguments.how.createhow3_u.obj_attributes.mode.value = mode;
  }
  bool told = false;
  int result =
      perform<CREATE3res>(library_.rpc_nfs3_create_async, arguments, [&](const CREATE3res& reply) {
        const post_op_fh3& object = reply.resok.obj;
        told = object.handle_follows != 0;
        if (told) made = NfsHandle(object.handle);
        return 0;
      });
  NfsAttributes attributes;
  if (result == 0 && !told) result = lookup(where.parent, where.name, made, attributes);
  // An exclusive create gives it neither permissions nor times.
  constexpr std::int64_t now = NewAttributes::now;
  if (result == 0 && exclusive)
    result = set_attributes(made, {.mode = mode, .accessed_ns = now, .modified_ns = now});
  return result;
}

int NfsCalls::remove(const Found& what) {
  REMOVE3args arguments{};
  arguments.object = nfs_entry(what.parent, what.name);
  const int result = perform<REMOVE3res>(library_.rpc_nfs3_remove_async, arguments, done);
  // It was removed by the call whose answer got lost.
  return result == -ENOENT && repeated_ ? 0 : result;
}

int NfsCalls::rename(const Found& what, const Found& to) {
  RENAME3args arguments{};
  arguments.from = nfs_entry(what.parent, what.name);
  arguments.to = nfs_entry(to.parent, to.name);
  const int result = perform<RENAME3res>(library_.rpc_nfs3_rename_async, arguments, done);
  return result == -ENOENT && repeated_ ? 0 : result;  // as for remove()
}

int NfsCalls::make_link(const Found& where, const std::string& text) {
  if (where.name.size() > nfs_name_bytes_max || text.size() >= PATH_MAX) return -ENAMETOOLONG;
  if (text.empty()) return -ENOENT;
  SYMLINK3args arguments{};
  arguments.where = nfs_entry(where.parent, where.name);
  arguments.symlink.symlink_data = const_cast<char*>(text.c_str());
  const int result = perform<SYMLINK3res>(library_.rpc_nfs3_symlink_async, arguments, done);
  // It was made by the call whose answer got lost.
  return result == -EEXIST && repeated_ ? 0 : result;
}

int NfsCalls::add_name(const Found& what, const Found& to) {
  if (to.name.size() > nfs_name_bytes_max) return -ENAMETOOLONG;
  LINK3args arguments{};
  arguments.file = what.object.argument();
  arguments.link = nfs_entry(to.parent, to.name);
  const int result = perform<LINK3res>(library_.rpc_nfs3_link_async, arguments, done);
  return result == -EEXIST && repeated_ ? 0 : result;  // as for make_link()
}

// ---- directories

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
  const auto asked = from.cookie;
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
        // A server that sends nothing, or the same again, would be asked for ever.
        return from.cookie == asked && !all ? -EIO : 0;
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
