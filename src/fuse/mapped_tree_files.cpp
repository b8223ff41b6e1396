// Open files of a mapped tree: their bytes, and what is due when they are closed.
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/direction.hpp"
#include "base/times.hpp"
#include "fuse/mapped_tree.hpp"

namespace ferry::fuse {

using storage::Kind;
using storage::Status;

namespace {

// Equal values at two opens mean that the file's contents are the same; 0: not known. Where the
// storage has no version (NFS), the time of the last change stands for it, as for a mounted NFS;
// not one of a moment ago, as another change may follow that leaves the time as it is.
std::uint64_t version_of(const Status& status) {
  if (status.version != 0 || status.changed_ns == 0) return status.version;
  constexpr std::int64_t moment_ns = 2 * ns_in_second;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t age_ns = ns_of(now) - status.changed_ns;
  return age_ns < moment_ns ? 0 : static_cast<std::uint64_t>(status.changed_ns);
}

}  // namespace

std::int64_t MappedTree::open_at(TreeWorker& worker, const std::string& path, int flags,
                                 std::uint32_t mode, MappedFilePointer& opened) {
  constexpr int passed_on = O_ACCMODE | O_APPEND | O_TRUNC | O_CREAT | O_EXCL | O_SYNC | O_DSYNC;
  storage::Operation operation{.kind = Kind::open,
                               .path = path.c_str(),
                               .flags = (flags & passed_on) | O_NOFOLLOW,
                               .mode = mode};
  if (const std::int64_t error = worker.calls.run(operation); error != 0) return error;
  opened = std::make_shared<MappedFile>();
  opened->file = std::move(operation.opened);
  opened->written.file = opened->file.get();
  opened->appends = (flags & O_APPEND) != 0;
  opened->writes = (flags & O_ACCMODE) != O_RDONLY;
  opened->has_written = (flags & O_TRUNC) != 0;
  return 0;
}

// The kernel keeps the pages of a file that did not change since its last open. It appends where it
// takes the end of the file to be; other machines may have moved that, so appends pass by its
// pages.
std::uint32_t MappedTree::open_flags(const MappedFile& opened, const Status& status) {
  if (opened.appends) return FOPEN_DIRECT_IO;
  const std::uint64_t now = version_of(status);
  const std::lock_guard lock(versions_mutex_);
  const std::uint64_t before = std::exchange(versions_[opened.node], now);
  return now != 0 && before == now ? FOPEN_KEEP_CACHE : 0;
}

void MappedTree::open(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const auto arguments = request.arguments<fuse_open_in>();
  const std::optional<std::string> path = place(request.node());
  if (!path) return answer.fail(-ESTALE);
  files_.settle(worker.calls, request.node());
  const auto flags = static_cast<int>(arguments.flags);
  const bool truncates = (flags & O_TRUNC) != 0 && (flags & O_ACCMODE) != O_RDONLY;
  MappedFilePointer opened;
  std::int64_t error = open_at(worker, *path, truncates ? flags & ~O_TRUNC : flags, 0, opened);
  if (error != 0) return answer.fail(error);
  opened->node = request.node();
  storage::Operation status{.kind = Kind::file_status, .file = opened->file.get()};
  error = worker.calls.run(status);
  // The kernel has looked at the permissions of another file that had this name.
  const auto known = nodes_.known(request.node());
  if (error == 0 && known && known->inode != status.status.inode) error = -ESTALE;
  if (error == 0 && truncates) {
    ++changes_;
    error = worker.calls.run({.kind = Kind::truncate, .file = opened->file.get()});
    opened->has_written = true;
  }
  const bool has_other_names = status.status.links > 1;
  if (error == 0 && has_other_names) files_.settle_all(worker.calls);  // theirs may be gathered
  if (error == 0 && (truncates || has_other_names)) error = worker.calls.run(status);
  if (error != 0) {
    worker.calls.run({.kind = Kind::close, .file = opened->file.release()});
    return answer.fail(error);
  }
  // Reads end where the kernel takes the end of the file to be.
  if (known && known->told_bytes != status.status.size_bytes) answer.outdate(request.node());
  fuse_open_out to{};
  to.open_flags = open_flags(*opened, status.status);
  to.fh = files_.add(opened);
  if (has_other_names) files_.note_other_names(request.node());
  answer.add(to);
}

void MappedTree::create(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const std::shared_lock lock = share_paths();
  const auto arguments = request.arguments<fuse_create_in>();
  const std::string_view name = request.name(sizeof arguments);
  const std::optional<std::string> path = place(request.node(), name);
  if (!path) return answer.fail(-ESTALE);
  ++changes_;
  files_.settle(worker.calls, nodes_.find(request.node(), name));
  MappedFilePointer opened;
  std::int64_t error = open_at(worker, *path, static_cast<int>(arguments.flags) | O_CREAT,
                               arguments.mode & 07777, opened);
  if (error != 0) return answer.fail(error);
  storage::Operation status{.kind = Kind::file_status, .file = opened->file.get()};
  if (error = worker.calls.run(status); error != 0) {
    worker.calls.run({.kind = Kind::close, .file = opened->file.release()});
    return answer.fail(error);
  }
  give_to_user(worker, request, *path, status.status);
  const fuse_entry_out made = entry(request.node(), name, status.status);
  opened->node = made.nodeid;
  fuse_open_out to{};
  to.open_flags = open_flags(*opened, status.status);
  to.fh = files_.add(opened);
  answer.add(made);
  answer.add(to);
}

std::int64_t MappedTree::resize(TreeWorker& worker, std::uint64_t node, MappedFilePointer opened,
                                std::uint64_t bytes) {
  files_.settle(worker.calls, node);
  BorrowedFile other;
  if (opened == nullptr || !opened->writes) {
    other = files_.borrow(node, true);
    opened = other.file;
  }
  const auto size = static_cast<std::int64_t>(bytes);
  if (opened != nullptr) {
    opened->has_written = true;
    return worker.calls.run({.kind = Kind::truncate, .file = opened->file.get(), .offset = size});
  }
  const std::optional<std::string> path = place(node);
  if (!path) return -ESTALE;
  std::int64_t error = open_at(worker, *path, O_WRONLY, 0, opened);
  if (error != 0) return error;
  storage::File* file = opened->file.release();
  error = worker.calls.run({.kind = Kind::truncate, .file = file, .offset = size});
  const std::int64_t closed = worker.calls.run({.kind = Kind::close, .file = file});
  return error != 0 ? error : closed;
}

void MappedTree::read(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const auto arguments = request.arguments<fuse_read_in>();
  const MappedFilePointer opened = files_.find(request.node(), arguments.fh);
  if (opened == nullptr || opened->file == nullptr) return answer.fail(-EBADF);
  files_.settle(worker.calls, request.node());
  worker.memory.resize(std::max<std::size_t>(worker.memory.size(), arguments.size));
  // The kernel takes a short answer for the end of the file.
  const std::int64_t got = worker.calls.transfer(
      *opened->file, Direction::read, worker.memory.data(), arguments.size, arguments.offset);
  if (got < 0) return answer.fail(got);
  answer.refer(worker.memory.data(), static_cast<std::size_t>(got));
}

void MappedTree::write(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const auto arguments = request.arguments<fuse_write_in>();
  const MappedFilePointer opened = files_.find(request.node(), arguments.fh);
  if (opened == nullptr || opened->file == nullptr) return answer.fail(-EBADF);
  std::span<const char> data = request.after(sizeof arguments);
  data = data.first(std::min<std::size_t>(data.size(), arguments.size));
  opened->has_written = true;
  ++changes_;
  if ((arguments.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0)
    end_special_rights(worker, request.node());
  std::int64_t moved = 0;
  if (opened->appends) {
    files_.settle(worker.calls, request.node());
    iovec memory{const_cast<char*>(data.data()), data.size()};
    moved = worker.calls.run(
        {.kind = Kind::append, .file = opened->file.get(), .vectors = {&memory, 1}});
  } else {
    const bool at_once = (arguments.flags & (O_DIRECT | O_DSYNC)) != 0;
    moved = opened->gathered->write(worker.calls, opened->written, arguments.offset, data, at_once);
  }
  if (moved < 0) return answer.fail(moved);
  fuse_write_out to{};
  to.size = static_cast<std::uint32_t>(moved);
  answer.add(to);
}

void MappedTree::flush(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const MappedFilePointer opened =
      files_.find(request.node(), request.arguments<fuse_flush_in>().fh);
  if (opened == nullptr) return answer.fail(-EBADF);
  if (opened->file == nullptr) return;
  files_.settle(worker.calls, request.node());
  // A child may close what its parent has written: the error is the parent's all the same.
  const std::lock_guard lock(opened->flushing);
  if (opened->written.late_error == 0 && syncs_at_close_ && opened->has_written.exchange(false)) {
    const std::int64_t error =
        worker.calls.run({.kind = Kind::sync_data, .file = opened->file.get()});
    if (error != 0) opened->written.late_error = error;
  }
  if (const std::int64_t error = opened->written.late_error; error != 0) answer.fail(error);
}

void MappedTree::sync(TreeWorker& worker, const KernelRequest& request, KernelAnswer& answer) {
  const auto arguments = request.arguments<fuse_fsync_in>();
  const MappedFilePointer opened = files_.find(request.node(), arguments.fh);
  if (opened == nullptr || opened->file == nullptr) return answer.fail(-EBADF);
  files_.settle(worker.calls, request.node());
  const bool data = (arguments.fsync_flags & FUSE_FSYNC_FDATASYNC) != 0;
  std::int64_t error = opened->written.late_error.exchange(0);
  if (error == 0)
    error =
        worker.calls.run({.kind = data ? Kind::sync_data : Kind::sync, .file = opened->file.get()});
  if (error != 0) answer.fail(error);
}

// The kernel waits for nothing here, and asks for nothing else of this number.
void MappedTree::release(TreeWorker& worker, const KernelRequest& request) {
  const std::uint64_t number = request.arguments<fuse_release_in>().fh;
  const MappedFilePointer opened = files_.find(request.node(), number);
  if (opened == nullptr) return;
  files_.settle(worker.calls, request.node());
  // A mapping writes after the last descriptor is closed.
  if (opened->file != nullptr && syncs_at_close_ && opened->has_written.exchange(false))
    worker.calls.run({.kind = Kind::sync_data, .file = opened->file.get()});
  const HiddenName hidden = files_.close(worker.calls, request.node(), number);
  if (!hidden.name.empty()) remove_hidden(worker, hidden);
}

void MappedTree::remove_hidden(TreeWorker& worker, const HiddenName& hidden) {
  const std::shared_lock lock = share_paths();
  const std::string path = place(hidden.folder, hidden.name).value_or(hidden.path);
  worker.calls.run({.kind = Kind::unlink, .path = path.c_str()});
}

}  // namespace ferry::fuse
