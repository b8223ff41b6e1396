#include "storage/nfs/server.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>

#include "base/caught_error.hpp"
#include "storage/entry_names.hpp"

namespace ferry::storage {
namespace {

bool may_write(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}

bool changes_names(Kind kind) {
  return kind == Kind::unlink || kind == Kind::rename || kind == Kind::make_directory ||
         kind == Kind::remove_directory;
}

}  // namespace

void NfsServer::execute(Operation& operation, const std::string& path,
                        const std::string& new_path) {
  auto* file = static_cast<NfsFile*>(operation.file);
  std::unique_ptr<NfsRpc> rpc = take_rpc();
  NfsCalls calls(*library_, address_, *rpc, known_.load(std::memory_order_relaxed));
  std::unique_lock<AppendTurn> turn;  // of an append, until it is known whether it is late
  switch (operation.kind) {
    case Kind::append:
    case Kind::write:
      turn = std::unique_lock(*file->appending, calls.deadline());
      operation.result = turn.owns_lock() ? append(calls, operation) : -ETIMEDOUT;
      break;
    case Kind::truncate:
      operation.result =
          !file->writable || operation.offset < 0
              ? -EINVAL
              : calls.set_size(file->handle, static_cast<std::uint64_t>(operation.offset),
                               file->changes);
      break;
    case Kind::file_status: {
      // Without a version: the protocol only has times of changes, and operations in progress on
      // the server, which may give other bytes the same time, are invisible here.
      NfsAttributes attributes;
      operation.result = calls.get_attributes(file->handle, attributes);
      operation.status = attributes.status;
      break;
    }
    default:
      operation.result = execute_path(calls, operation, path, new_path);
      break;
  }
  if (rpc->waits()) {
    connections().front()->add_late(std::move(rpc),
                                    std::make_unique<LateChange>(calls.late_changes(), -ETIMEDOUT));
  } else {
    give_rpc(std::move(rpc));
  }
}

std::int64_t NfsServer::execute_path(NfsCalls& calls, Operation& operation, const std::string& path,
                                     const std::string& new_path) {
  // The protocol knows of no stripes.
  if (operation.kind == Kind::path_layout || operation.kind == Kind::set_layout ||
      operation.layout != nullptr) {
    return -EOPNOTSUPP;
  }
  for (bool again = false;; again = true) {
    NfsExport from;
    if (const int error = export_of(calls, path, from); error != 0) return error;
    NfsCalls::Found found;
    int result = 0;
    if (operation.kind == Kind::open) {
      result = open(calls, operation, from, path);
    } else {
      const bool follows =
          operation.kind == Kind::list_directory ||
          ((operation.kind == Kind::path_status || operation.kind == Kind::set_attributes) &&
           (operation.flags & O_NOFOLLOW) == 0);
      const bool makes =
          operation.kind == Kind::make_directory || operation.kind == Kind::make_link;
      result = calls.walk(from, makes ? without_slash(path) : path, follows, found);
      if (result == 0 && !found.exists && !makes) result = -ENOENT;
      const LastName last_name(path);
      if (result == 0 && changes_names(operation.kind)) result = last_name.refusal(operation.kind);
      if (result == 0 && operation.kind == Kind::make_link && !found.exists)
        result = last_name.refusal_of_link();
    }
    if (result == -ESTALE && !again) {
      // The server may have got other handles for its exports.
      const std::lock_guard lock(mutex_);
      exports_.clear();
      continue;
    }
    if (result != 0 || operation.kind == Kind::open) return result;
    return has_new_path(operation.kind)
               ? give_new_path(calls, operation.kind, from, found, new_path)
               : execute_found(calls, operation, found);
  }
}

// For the target of a path.
int NfsServer::execute_found(NfsCalls& calls, Operation& operation, const NfsCalls::Found& found) {
  const bool directory = found.attributes.type == NF3DIR;
  switch (operation.kind) {
    case Kind::path_status:
      operation.status = found.attributes.status;
      return 0;
    case Kind::unlink:
      return directory ? -EISDIR : calls.remove(found);
    case Kind::make_directory:
      return found.exists
                 ? -EEXIST
                 : calls.make_directory(found, operation.mode & 07777 & ~umask_of_process());
    case Kind::read_link:
      if (found.attributes.type != NF3LNK) return -EINVAL;
      return calls.read_link(found.object, *operation.text);
    case Kind::make_link:
      return found.exists ? -EEXIST : calls.make_link(found, *operation.text);
    case Kind::remove_directory:
      if (!directory) return -ENOTDIR;
      return found.name.empty() ? -EBUSY : calls.remove_directory(found);
    case Kind::list_directory:
      return directory ? calls.list_directory(found.object, *operation.entries) : -ENOTDIR;
    case Kind::set_attributes:
      return calls.set_attributes(found.object, *operation.attributes);
    default:
      return -EINVAL;
  }
}

int NfsServer::give_new_path(NfsCalls& calls, Kind kind, const NfsExport& from,
                             const NfsCalls::Found& what, const std::string& new_path) {
  NfsExport there;
  if (const int error = export_of(calls, new_path, there); error != 0) return error;
  if (there.path != from.path) return -EXDEV;
  NfsCalls::Found to;
  const LastName last_name(new_path);
  const int error = calls.walk(there, without_slash(new_path), false, to);
  if (error != 0) return error;
  const bool directory = what.attributes.type == NF3DIR;
  if (kind == Kind::add_name) {
    if (to.exists) return -EEXIST;
    if (directory) return -EPERM;
    return last_name.wants_directory() ? -ENOENT : calls.add_name(what, to);
  }
  if (last_name.is_none()) return last_name.refusal(Kind::rename);
  return last_name.has_slash_behind && !directory ? -ENOTDIR : calls.rename(what, to);
}

int NfsServer::export_of(NfsCalls& calls, const std::string& path, NfsExport& found) {
  {
    const std::lock_guard lock(mutex_);
    std::string longest;
    for (const std::string& name : export_names_)
      if (lies_under(path, name) && name.size() > longest.size()) longest = name;
    for (const NfsExport& known : exports_) {
      if (known.path != longest) continue;
      found = known;
      return 0;
    }
  }
  const int result = calls.find_export(path, found);
  if (result != 0) return result;
  known_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  export_names_ = found.all;
  std::erase_if(exports_, [&](const NfsExport& known) { return known.path == found.path; });
  exports_.push_back(found);
  return 0;
}

// ---- operations

int NfsServer::open_existing(NfsCalls& calls, int flags, const NfsCalls::Found& found) {
  const bool directory = found.attributes.type == NF3DIR;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
  if (const int error = refusal_of_type(found.attributes.status.mode); error != 0) return error;
  if (directory && (may_write(flags) || (flags & (O_CREAT | O_TRUNC)) != 0)) return -EISDIR;
  if (!directory && (flags & O_DIRECTORY) != 0) return -ENOTDIR;
  unsigned wanted = may_write(flags) || (flags & O_TRUNC) != 0 ? access_modify : 0;
  if ((flags & O_ACCMODE) != O_WRONLY) wanted |= access_read;
  if (const int error = calls.allowed(found.object, wanted); error != 0) return error;
  if ((flags & O_TRUNC) == 0) return 0;
  const auto changes =
      LateChanges::of(found.attributes.status.device, found.attributes.status.inode);
  if (const int late = changes->error(); late != 0) return late;
  return calls.set_size(found.object, 0, changes);
}

int NfsServer::open(NfsCalls& calls, Operation& operation, const NfsExport& from,
                    const std::string& path) {
  const int flags = operation.flags;
  if ((flags & O_TMPFILE) == O_TMPFILE || (flags & O_PATH) != 0) return -EOPNOTSUPP;
  const bool exclusive = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  NfsCalls::Found found;
  const LastName last_name(path);
  if ((flags & O_CREAT) != 0 && last_name.wants_directory()) {
    const int error = calls.walk(from, without_slash(path), false, found);
    if (error != 0) return error;
    return last_name.is_none() ? last_name.refusal(Kind::open, flags) : -EISDIR;
  }
  int result = calls.walk(from, path, !exclusive && (flags & O_NOFOLLOW) == 0, found);
  if (result != 0) return result;
  auto file = std::make_unique<NfsFile>();
  if (found.exists) {
    result = open_existing(calls, flags, found);
  } else if ((flags & O_CREAT) == 0) {
    result = -ENOENT;
  } else {
    const std::uint32_t mode = operation.mode & 07777 & ~umask_of_process();
    result = calls.create(found, exclusive, mode, found.object);
    if (result == 0) result = calls.get_attributes(found.object, found.attributes);
  }
  if (result != 0) return result;
  file->server = shared_from_this();
  file->handle = found.object;
  const Status& status = found.attributes.status;
  file->changes = LateChanges::of(status.device, status.inode);
  file->appending = AppendTurn::of(status.device, status.inode);
  file->writes.emplace(address_.host + ':' + std::to_string(address_.nfs_port) + ' ' +
                       found.object.bytes());
  file->read_bytes_max = from.read_bytes_max;
  file->write_bytes_max = from.write_bytes_max;
  file->opened_with(flags);
  file->directory = found.attributes.type == NF3DIR;
  operation.opened = std::move(file);
  return 0;
}

std::int64_t NfsServer::append(NfsCalls& calls, Operation& operation) {
  auto& file = static_cast<NfsFile&>(*operation.file);
  // The one before may be late.
  if (const int late = file.changes->error(); late != 0) return late;
  NfsAttributes attributes;
  if (const int error = calls.get_attributes(file.handle, attributes); error != 0) return error;
  std::uint64_t end = attributes.status.size_bytes;
  std::int64_t total = 0;
  for (const iovec& vector : operation.vectors) {
    constexpr std::uint64_t end_max = std::numeric_limits<std::int64_t>::max();
    if (vector.iov_len > end_max - end) {
      if (total == 0) return -EFBIG;
      break;
    }
    const std::int64_t written =
        calls.write(file, static_cast<const char*>(vector.iov_base), vector.iov_len, end);
    if (written < 0 && total == 0) return written;
    if (written > 0) {
      total += written;
      end += static_cast<std::uint64_t>(written);
    }
    if (written < static_cast<std::int64_t>(vector.iov_len)) break;
  }
  operation.value = end;
  return total;
}

// ---- connections -------------------------------------------------------------------------------

std::unique_ptr<NfsRpc> NfsServer::take_rpc() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<NfsRpc>(*library_, address_);
  std::unique_ptr<NfsRpc> rpc = std::move(idle_.back());
  idle_.pop_back();
  return rpc;
}

void NfsServer::give_rpc(std::unique_ptr<NfsRpc> rpc) {
  const std::lock_guard lock(mutex_);
  if (rpc->connected() && idle_.size() < idle_max) idle_.push_back(std::move(rpc));
}

std::vector<std::unique_ptr<NfsConnection>>& NfsServer::connections() {
  const std::lock_guard lock(mutex_);
  if (!connections_.empty()) return connections_;
  connections_.reserve(address_.connections);
  try {
    while (connections_.size() < address_.connections)
      connections_.push_back(std::make_unique<NfsConnection>(*library_, address_));
  } catch (...) {  // no memory, no descriptor or no thread for more
    if (connections_.empty()) throw;
  }
  return connections_;
}

void NfsServer::start(const std::shared_ptr<NfsTransfer>& transfer) {
  // After the last piece was handed over, the transfer may be over.
  const std::size_t count = transfer->pieces().size();
  std::size_t next = 0;
  try {
    auto& all = connections();
    for (; next < count; ++next)
      all[next_.fetch_add(1, std::memory_order_relaxed) % all.size()]->add({transfer, next});
  } catch (...) {  // no memory, no descriptor or no thread: the rest fails
    const int error = caught_error();
    for (; next < count; ++next) {
      transfer->pieces()[next].error = -error;
      transfer->finish_piece();
    }
  }
}

void NfsServer::look_again() {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_)
    connection->look_again();
}

std::vector<std::string> NfsServer::facts(const std::string& path) {
  std::unique_ptr<NfsRpc> rpc = take_rpc();
  NfsCalls calls(*library_, address_, *rpc, false);
  NfsExport found;
  const int error = export_of(calls, path, found);
  if (error == -ENOENT) {
    std::string names;
    for (const std::string& name : found.all)
      names += (names.empty() ? "" : ", ") + name;
    throw Unavailable(ENOENT, address_.host + " exports no directory above " + path +
                                  "; it exports " + (names.empty() ? "nothing" : names));
  }
  if (error != 0) {
    throw Unavailable(-error, "the NFS server " + address_.host + " cannot be used (" +
                                  std::strerror(-error) +
                                  "); see that it runs, offers version 3, and that its ports "
                                  "(portmapper, or nfsport= and mountport=) can be reached");
  }
  give_rpc(std::move(rpc));
  const auto kib = [](std::uint32_t bytes) { return std::to_string(bytes / 1024) + " KiB"; };
  return {"NFS version 3, export " + found.path + " of " + address_.host,
          "requests of up to " + kib(found.read_bytes_max) + " (reads) and " +
              kib(found.write_bytes_max) + " (writes), over " +
              std::to_string(address_.connections) + " connections"};
}

}  // namespace ferry::storage
