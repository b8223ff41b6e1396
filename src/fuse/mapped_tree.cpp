// Names, attributes and directories of a mapped tree.
#include "fuse/mapped_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <random>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "base/times.hpp"
#include "storage/uri.hpp"

namespace ferry::fuse {

using storage::Kind;
using storage::NewAttributes;
using storage::Status;

namespace {

// How long the kernel may take names and attributes for true without asking.
constexpr std::uint64_t trusted_s = 1;
// How long gathered writes wait for more.
constexpr std::chrono::seconds gathered_at_most(1);
constexpr std::uint32_t block_bytes = 4096;
constexpr std::uint32_t name_bytes_max = 255;
constexpr const char* hidden_prefix = ".ferry-removed-";

void set_time(std::uint64_t& seconds, std::uint32_t& nanoseconds, std::int64_t ns) {
  const timespec time = timespec_of(ns);
  seconds = static_cast<std::uint64_t>(time.tv_sec);
  nanoseconds = static_cast<std::uint32_t>(time.tv_nsec);
}

// A file with other names may change by those.
std::uint64_t attributes_trusted_s(const Status& status) {
  return S_ISREG(status.mode) && status.links > 1 ? 0 : trusted_s;
}

std::optional<std::int64_t> time_to_set(const fuse_setattr_in& to, std::uint32_t member,
                                        std::uint32_t now, std::uint64_t seconds,
                                        std::uint32_t nanoseconds) {
  if ((to.valid & member) == 0) return {};
  if ((to.valid & now) != 0) return NewAttributes::now;
  return static_cast<std::int64_t>(seconds) * ns_in_second + nanoseconds;
}

}  // namespace

MappedTree::MappedTree(storage::Storage& storage, const std::string& root,
                       std::optional<OnlyUser> only_user)
    : storage_(storage),
      before_(root.substr(0, storage::path_end(root))),
      behind_(root.substr(storage::path_end(root))),
      is_uri_(storage::scheme_of(root) != storage::Scheme::posix),
      only_user_(only_user),
      keeps_removed_(storage.describe_path(root).capabilities.open_after_unlink),
      syncs_at_close_(storage::scheme_of(root) == storage::Scheme::nfs),
      settling_([this](const std::stop_token& stop) { settle_in_time(stop); }) {}

// Closes what the kernel has not closed when it ended the connection.
MappedTree::~MappedTree() {
  settling_ = {};
  storage::SyncCalls calls(storage_);
  files_.close_all(calls);
}

std::shared_lock<std::shared_mutex> MappedTree::share_paths() {
  const std::lock_guard lock(gate_);
  return std::shared_lock(paths_);
}

void MappedTree::settle_in_time(const std::stop_token& stop) {
  name_this_thread("ferry-mount");
  storage::SyncCalls calls(storage_);
  std::mutex mutex;
  std::condition_variable_any nothing;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    nothing.wait_for(lock, stop, gathered_at_most, [] { return false; });
    files_.settle_all(calls);
  }
}

void MappedTree::answer(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  switch (request.header().opcode) {
    case FUSE_LOOKUP:
      return look_up(worker, request, answer);
    case FUSE_FORGET:
      forget(request.node(), request.arguments<fuse_forget_in>().nlookup);
      return answer.leave_out();
    case FUSE_BATCH_FORGET:
      forget_many(request);
      return answer.leave_out();
    case FUSE_INTERRUPT:  // operations end within the storage's bound
      return answer.leave_out();
    case FUSE_GETATTR:
      return get_attributes(worker, request, answer);
    case FUSE_SETATTR:
      return set_attributes(worker, request, answer);
    case FUSE_OPEN:
      return open(worker, request, answer);
    case FUSE_CREATE:
      return create(worker, request, answer);
    case FUSE_MKNOD:
      return make_node(worker, request, answer);
    case FUSE_READLINK:
      return read_link(worker, request, answer);
    case FUSE_SYMLINK:
      return make_link(worker, request, answer);
    case FUSE_LINK:
      return add_name(worker, request, answer);
    case FUSE_MKDIR:
      return make_directory(worker, request, answer);
    case FUSE_READ:
      return read(worker, request, answer);
    case FUSE_WRITE:
      return write(worker, request, answer);
    case FUSE_FLUSH:
      return flush(worker, request, answer);
    case FUSE_FSYNC:
      return sync(worker, request, answer);
    case FUSE_FSYNCDIR:
      return;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return release(worker, request);
    case FUSE_OPENDIR:
      return open_directory(request, answer);
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return list(worker, request, answer, request.header().opcode == FUSE_READDIRPLUS);
    case FUSE_UNLINK:
    case FUSE_RMDIR:
      return remove(worker, request, answer, request.header().opcode == FUSE_RMDIR);
    case FUSE_RENAME:
      return rename(worker, request, answer, sizeof(fuse_rename_in));
    case FUSE_RENAME2:
      if (request.arguments<fuse_rename2_in>().flags != 0) return answer.fail(-EINVAL);
      return rename(worker, request, answer, sizeof(fuse_rename2_in));
    case FUSE_STATFS:
      return describe_space(answer);
    default:
      return answer.fail(-ENOSYS);  // the kernel does it itself, or asks no more
  }
}

// ---- names and attributes ----------------------------------------------------------------------

std::string MappedTree::placed(const std::string& path) const {
  const bool has_slash = !before_.empty() && before_.back() == '/';
  std::string place = before_;
  if (has_slash && !path.empty()) place.pop_back();
  return place + (is_uri_ ? storage::escaped(path) : path) + behind_;
}

std::optional<std::string> MappedTree::place(std::uint64_t node) const {
  const std::optional<std::string> path = nodes_.path(node);
  return path ? std::optional(placed(*path)) : std::nullopt;
}

std::optional<std::string> MappedTree::place(std::uint64_t folder, std::string_view name) const {
  const std::optional<std::string> path = nodes_.path(folder, name);
  return path ? std::optional(placed(*path)) : std::nullopt;
}

fuse_attr MappedTree::attributes(std::uint64_t node, const Status& status) {
  nodes_.tell_bytes(node, status.size_bytes);
  fuse_attr to{};
  to.ino = status.inode;
  // CephFS sums up what is below a directory, late: tar would take it for changed.
  const bool is_directory = S_ISDIR(status.mode);
  to.size = is_directory ? block_bytes : status.size_bytes;
  to.blocks = is_directory ? block_bytes / 512 : status.allocated_bytes / 512;
  set_time(to.atime, to.atimensec, status.accessed_ns);
  set_time(to.mtime, to.mtimensec, status.modified_ns);
  set_time(to.ctime, to.ctimensec, status.changed_ns != 0 ? status.changed_ns : status.modified_ns);
  to.mode = status.mode;
  to.nlink = status.links;
  to.uid = only_user_ ? only_user_->user : status.owner;
  to.gid = only_user_ ? only_user_->group : status.group;
  to.blksize = std::max(status.block_bytes, block_bytes);
  return to;
}

fuse_entry_out MappedTree::entry(std::uint64_t folder, std::string_view name,
                                 const Status& status) {
  fuse_entry_out to{};
  to.nodeid = nodes_.remember(folder, name, status.inode, status.mode);
  to.entry_valid = trusted_s;
  to.attr_valid = attributes_trusted_s(status);
  to.attr = attributes(to.nodeid, status);
  to.attr.nlink = std::max(to.attr.nlink, 1U);  // some storages do not say
  return to;
}

void MappedTree::look_up(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const std::optional<std::string> path = place(request.node(), request.name());
  if (!path) return answer.fail(-ESTALE);
  files_.settle(worker.calls, nodes_.find(request.node(), request.name()));
  storage::Operation operation{
      .kind = Kind::path_status, .path = path->c_str(), .flags = O_NOFOLLOW};
  if (const std::int64_t error = worker.calls.run(operation); error != 0) return answer.fail(error);
  answer.add(entry(request.node(), request.name(), operation.status));
}

void MappedTree::forget(std::uint64_t node, std::uint64_t times) {
  if (!nodes_.forget(node, times)) return;
  const std::lock_guard lock(versions_mutex_);
  versions_.erase(node);
}

void MappedTree::forget_many(const KernelRequest& request) {
  const auto count = request.arguments<fuse_batch_forget_in>().count;
  std::span<const char> rest = request.after(sizeof(fuse_batch_forget_in));
  for (std::uint32_t i = 0; i < count && rest.size() >= sizeof(fuse_forget_one); ++i) {
    fuse_forget_one one{};
    std::memcpy(&one, rest.data(), sizeof one);
    forget(one.nodeid, one.nlookup);
    rest = rest.subspan(sizeof one);
  }
}

// Of an open file if there is one: its name may be another file's by now, or none. Of a directory
// without a name, what was known.
std::int64_t MappedTree::status_of(TreeWorker& worker, std::uint64_t node, Status& status) {
  files_.settle(worker.calls, node);
  storage::Operation operation;
  const std::optional<std::string> path = place(node);
  const BorrowedFile opened = files_.borrow(node, false);
  if (opened.file != nullptr) {
    operation.kind = Kind::file_status;
    operation.file = opened.file->file.get();
  } else if (path) {
    operation.kind = Kind::path_status;
    operation.path = path->c_str();
    operation.flags = node == Nodes::root ? 0 : O_NOFOLLOW;
  } else if (const auto known = nodes_.known(node); known && S_ISDIR(known->mode)) {
    status.inode = known->inode;
    status.mode = known->mode;
    return 0;
  } else {
    return -ESTALE;
  }
  const std::int64_t error = worker.calls.run(operation);
  status = operation.status;
  status.links = path ? std::max(status.links, 1U) : 0;
  return error;
}

void MappedTree::get_attributes(TreeWorker& worker, const KernelRequest& request,
                                KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  Status status;
  if (const std::int64_t error = status_of(worker, request.node(), status); error != 0)
    return answer.fail(error);
  fuse_attr_out to{};
  to.attr_valid = attributes_trusted_s(status);
  to.attr = attributes(request.node(), status);
  answer.add(to);
}

void MappedTree::set_attributes(TreeWorker& worker, const KernelRequest& request,
                                KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const auto to = request.arguments<fuse_setattr_in>();
  ++changes_;
  std::int64_t error = 0;
  if ((to.valid & FATTR_SIZE) != 0)
    error =
        resize(worker, request.node(),
               (to.valid & FATTR_FH) != 0 ? files_.find(request.node(), to.fh) : nullptr, to.size);
  NewAttributes wanted;
  if ((to.valid & FATTR_MODE) != 0) wanted.mode = to.mode & 07777;
  if ((to.valid & FATTR_UID) != 0) wanted.owner = to.uid;
  if ((to.valid & FATTR_GID) != 0) wanted.group = to.gid;
  if (only_user_) {  // all files look like this user's: nothing to change
    if (wanted.owner == only_user_->user) wanted.owner.reset();
    if (wanted.group == only_user_->group) wanted.group.reset();
    if (wanted.owner || wanted.group) error = -EPERM;
  }
  files_.settle(worker.calls, request.node());  // it would set the times again
  wanted.accessed_ns = time_to_set(to, FATTR_ATIME, FATTR_ATIME_NOW, to.atime, to.atimensec);
  wanted.modified_ns = time_to_set(to, FATTR_MTIME, FATTR_MTIME_NOW, to.mtime, to.mtimensec);
  if (error == 0 &&
      (wanted.mode || wanted.owner || wanted.group || wanted.accessed_ns || wanted.modified_ns)) {
    const std::optional<std::string> path = place(request.node());
    if (!path) return answer.fail(-ESTALE);
    error = worker.calls.run({.kind = Kind::set_attributes,
                              .path = path->c_str(),
                              .attributes = &wanted,
                              .flags = O_NOFOLLOW});
  }
  Status status;
  if (error == 0) error = status_of(worker, request.node(), status);
  if (error != 0) return answer.fail(error);
  fuse_attr_out now{};
  now.attr_valid = attributes_trusted_s(status);
  now.attr = attributes(request.node(), status);
  answer.add(now);
}

// ---- what is made ------------------------------------------------------------------------------

// Regular files alone.
void MappedTree::make_node(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const auto arguments = request.arguments<fuse_mknod_in>();
  const std::string_view name = request.name(sizeof arguments);
  if (!S_ISREG(arguments.mode)) return answer.fail(-EPERM);
  const std::optional<std::string> path = place(request.node(), name);
  if (!path) return answer.fail(-ESTALE);
  MappedFilePointer opened;
  std::int64_t error =
      open_at(worker, *path, O_WRONLY | O_CREAT | O_EXCL, arguments.mode & 07777, opened);
  if (error != 0) return answer.fail(error);
  error = worker.calls.run({.kind = Kind::close, .file = opened->file.release()});
  answer_made(worker, request, name, *path, error, answer);
}

void MappedTree::make_directory(TreeWorker& worker, const KernelRequest& request,
                                KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const auto arguments = request.arguments<fuse_mkdir_in>();
  const std::string_view name = request.name(sizeof arguments);
  const std::optional<std::string> path = place(request.node(), name);
  if (!path) return answer.fail(-ESTALE);
  const std::int64_t error = worker.calls.run(
      {.kind = Kind::make_directory, .path = path->c_str(), .mode = arguments.mode & 07777});
  answer_made(worker, request, name, *path, error, answer);
}

void MappedTree::answer_made(TreeWorker& worker, const KernelRequest& request,
                             std::string_view name, const std::string& path, std::int64_t error,
                             KernelAnswer& answer) {
  ++changes_;
  storage::Operation status{.kind = Kind::path_status, .path = path.c_str(), .flags = O_NOFOLLOW};
  if (error == 0) error = worker.calls.run(status);
  if (error != 0) return answer.fail(error == -EOPNOTSUPP ? -EPERM : error);
  if (status.status.links <= 1 || S_ISDIR(status.status.mode))
    give_to_user(worker, request, path, status.status);
  answer.add(entry(request.node(), name, status.status));
}

void MappedTree::give_to_user(TreeWorker& worker, const KernelRequest& request,
                              const std::string& path, Status& status) {
  const std::uint32_t user = request.header().uid;
  if (only_user_ || user == geteuid() || status.owner == user) return;
  Status folder;
  if (status_of(worker, request.node(), folder) != 0) return;
  NewAttributes to{.owner = user};
  if ((folder.mode & S_ISGID) == 0) to.group = request.header().gid;
  const std::int64_t error = worker.calls.run(
      {.kind = Kind::set_attributes, .path = path.c_str(), .attributes = &to, .flags = O_NOFOLLOW});
  if (error != 0) return;  // a server may allow this to nobody
  status.owner = user;
  status.group = to.group.value_or(status.group);
}

void MappedTree::end_special_rights(TreeWorker& worker, std::uint64_t node) {
  const std::shared_lock lock = share_paths();
  Status status;
  const std::optional<std::string> path = place(node);
  if (!path || status_of(worker, node, status) != 0) return;
  std::uint32_t mode = status.mode & 07777 & ~std::uint32_t{S_ISUID};
  if ((mode & S_IXGRP) != 0) mode &= ~std::uint32_t{S_ISGID};
  if (mode == (status.mode & 07777)) return;
  const NewAttributes to{.mode = mode};
  worker.calls.run({.kind = Kind::set_attributes,
                    .path = path->c_str(),
                    .attributes = &to,
                    .flags = O_NOFOLLOW});
}

void MappedTree::read_link(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const std::optional<std::string> path = place(request.node());
  if (!path) return answer.fail(-ESTALE);
  std::string text;
  const std::int64_t error =
      worker.calls.run({.kind = Kind::read_link, .path = path->c_str(), .text = &text});
  if (error != 0) return answer.fail(error);
  answer.add_bytes(text.data(), text.size());
}

void MappedTree::make_link(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const std::string_view name = request.name();
  std::string text(request.name(name.size() + 1));
  const std::optional<std::string> path = place(request.node(), name);
  if (!path) return answer.fail(-ESTALE);
  const std::int64_t error =
      worker.calls.run({.kind = Kind::make_link, .path = path->c_str(), .text = &text});
  answer_made(worker, request, name, *path, error, answer);
}

// The kernel takes the two names for two files.
void MappedTree::add_name(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const auto arguments = request.arguments<fuse_link_in>();
  const std::string_view name = request.name(sizeof arguments);
  const std::optional<std::string> path = place(arguments.oldnodeid);
  const std::optional<std::string> new_path = place(request.node(), name);
  if (!path || !new_path) return answer.fail(-ESTALE);
  files_.settle(worker.calls, arguments.oldnodeid);
  const std::int64_t error = worker.calls.run(
      {.kind = Kind::add_name, .path = path->c_str(), .new_path = new_path->c_str()});
  answer.outdate(arguments.oldnodeid);
  files_.note_other_names(arguments.oldnodeid);
  answer_made(worker, request, name, *new_path, error, answer);
}

// ---- directories -------------------------------------------------------------------------------

void MappedTree::open_directory(const KernelRequest& request, KernelAnswer& answer) {
  auto opened = std::make_shared<MappedFile>();
  opened->node = request.node();
  fuse_open_out to{};
  to.fh = files_.add(opened);
  answer.add(to);
}

// A position is the number of entries before it; "." and ".." come first. Position 0 lists anew.
void MappedTree::list(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer,
                      bool with_attributes) {
  const std::shared_lock lock = share_paths();
  const auto arguments = request.arguments<fuse_read_in>();
  const MappedFilePointer opened = files_.find(request.node(), arguments.fh);
  if (opened == nullptr) return answer.fail(-EBADF);
  const std::lock_guard entries_lock(opened->mutex);
  if (arguments.offset == 0) {
    const std::optional<std::string> path = place(request.node());
    if (!path) return;  // removed: nothing is in it
    files_.settle_all(worker.calls);
    opened->listed_at = changes_;
    opened->entries.clear();
    const std::int64_t error = worker.calls.run(
        {.kind = Kind::list_directory, .path = path->c_str(), .entries = &opened->entries});
    if (error != 0) return answer.fail(error);
  }
  // What the program has changed since the listing, the kernel asks for by name.
  const bool is_current = opened->listed_at == changes_;
  std::size_t used = 0;
  static const storage::DirectoryEntry dots[] = {{".", {}}, {"..", {}}};
  for (std::uint64_t at = arguments.offset; at < opened->entries.size() + 2; ++at) {
    const storage::DirectoryEntry& one = at < 2 ? dots[at] : opened->entries[at - 2];
    const std::uint32_t mode = at < 2 ? std::uint32_t{S_IFDIR} : one.status.mode;
    const std::size_t bytes = FUSE_DIRENT_ALIGN(
        (with_attributes ? FUSE_NAME_OFFSET_DIRENTPLUS : FUSE_NAME_OFFSET) + one.name.size());
    if (used + bytes > arguments.size) break;
    used += bytes;
    fuse_entry_out found{};
    if (with_attributes && at >= 2 && is_current)
      found = entry(request.node(), one.name, one.status);
    if (with_attributes) answer.add(found);
    fuse_dirent next{};
    next.ino = one.status.inode != 0 ? one.status.inode : ~std::uint64_t{0};
    next.off = at + 1;
    next.namelen = static_cast<std::uint32_t>(one.name.size());
    next.type = mode >> 12;
    answer.add_bytes(&next, FUSE_NAME_OFFSET);
    answer.add_bytes(one.name.data(), one.name.size());
    const char padding[8]{};
    answer.add_bytes(padding, FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + one.name.size()) -
                                  (FUSE_NAME_OFFSET + one.name.size()));
  }
}

std::int64_t MappedTree::keep_open(TreeWorker& worker, std::uint64_t folder, std::string_view name,
                                   HiddenName& hidden) {
  if (keeps_removed_) return -ENOENT;
  const std::uint64_t node = nodes_.find(folder, name);
  if (node == 0 || files_.borrow(node, false).file == nullptr) return -ENOENT;
  std::random_device random;  // other servers may have the same process number
  hidden = {folder, hidden_prefix + std::to_string(random()) + std::to_string(random()), {}};
  const std::optional<std::string> path = place(folder, name);
  const std::optional<std::string> there = place(folder, hidden.name);
  if (!path || !there) return -ESTALE;
  hidden.path = *there;
  const std::int64_t error =
      worker.calls.run({.kind = Kind::rename, .path = path->c_str(), .new_path = there->c_str()});
  // It may have been closed meanwhile.
  if (error == 0 && !files_.hide(node, hidden))
    worker.calls.run({.kind = Kind::unlink, .path = there->c_str()});
  return error;
}

void MappedTree::remove(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer,
                        bool directory) {
  const std::shared_lock lock = share_paths();
  const std::optional<std::string> path = place(request.node(), request.name());
  if (!path) return answer.fail(-ESTALE);
  ++changes_;
  HiddenName hidden;
  std::int64_t error =
      directory ? -ENOENT : keep_open(worker, request.node(), request.name(), hidden);
  if (error == -ENOENT)
    error = worker.calls.run(
        {.kind = directory ? Kind::remove_directory : Kind::unlink, .path = path->c_str()});
  if (error != 0) return answer.fail(error);
  nodes_.removed(request.node(), request.name());
}

void MappedTree::rename(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer,
                        std::size_t arguments_bytes) {
  const std::lock_guard gate(gate_);
  const std::unique_lock lock(paths_);
  const std::uint64_t to_folder = request.arguments<fuse_rename_in>().newdir;
  const std::string_view from = request.name(arguments_bytes);
  const std::string_view to = request.name(arguments_bytes + from.size() + 1);
  const std::optional<std::string> path = place(request.node(), from);
  const std::optional<std::string> new_path = place(to_folder, to);
  if (!path || !new_path) return answer.fail(-ESTALE);
  ++changes_;
  const auto inode_of = [&](std::uint64_t node) {
    const auto known = nodes_.known(node);
    return known ? known->inode : 0;
  };
  const std::uint64_t replaced = nodes_.find(to_folder, to);
  const bool is_same = inode_of(replaced) == inode_of(nodes_.find(request.node(), from));
  HiddenName hidden;
  const std::int64_t kept = is_same ? -ENOENT : keep_open(worker, to_folder, to, hidden);
  if (kept != 0 && kept != -ENOENT) return answer.fail(kept);
  const std::int64_t error = worker.calls.run(
      {.kind = Kind::rename, .path = path->c_str(), .new_path = new_path->c_str()});
  if (error != 0 && kept == 0 && files_.hide(replaced, {}))
    worker.calls.run(
        {.kind = Kind::rename, .path = hidden.path.c_str(), .new_path = new_path->c_str()});
  if (error != 0) return answer.fail(error);
  nodes_.renamed(request.node(), from, to_folder, to);
}

// Storages do not say how much room there is.
void MappedTree::describe_space(KernelAnswer& answer) const {
  fuse_statfs_out to{};
  to.st.bsize = block_bytes;
  to.st.frsize = block_bytes;
  to.st.namelen = name_bytes_max;
  answer.add(to);
}

}  // namespace ferry::fuse
