#include "storage/ceph_call.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/sanitizer.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
constexpr unsigned timeout_max_s = 3600;
constexpr unsigned id_max = 0xfffffffe;

const char* text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

Status to_status(const struct ceph_statx& from, const CephAddress& address) {
  Status to;
  to.size_bytes = from.stx_size;
  to.allocated_bytes = from.stx_blocks * 512;
  to.inode = from.stx_ino;
  // The highest bit keeps it apart from the kernel's numbers.
  const std::uint64_t cluster =
      std::hash<std::string>()(address.configuration + '\n' + address.file_system);
  to.device = (from.stx_dev ^ cluster) | (std::uint64_t{1} << 63);
  to.modified_ns = from.stx_mtime.tv_sec * 1'000'000'000 + from.stx_mtime.tv_nsec;
  to.mode = from.stx_mode;
  to.links = from.stx_nlink;
  to.owner = from.stx_uid;
  to.group = from.stx_gid;
  to.block_bytes = from.stx_blksize;
  return to;
}

}  // namespace

CephAddress ceph_address_of(const Uri& uri) {
  uri.allow_only("conf fs gid timeout uid user");
  CephAddress address;
  address.configuration = uri.text("conf");
  address.user = uri.text("user");
  address.file_system = uri.text("fs");
  address.uid = uri.number("uid", ::geteuid(), 0, id_max);
  address.gid = uri.number("gid", ::getegid(), 0, id_max);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(address.timeout);
  address.timeout = std::chrono::seconds(
      uri.number("timeout", static_cast<unsigned>(seconds.count()), 1, timeout_max_s));
  return address;
}

CephMounts::~CephMounts() {
  if (mounts_.empty()) return;
  std::chrono::milliseconds timeout{0};
  for (const auto& [address, mount] : mounts_)
    timeout = std::max(timeout, address.timeout);
  std::promise<void> unmounted;
  const std::future<void> waits = unmounted.get_future();
  std::thread([mounts = std::move(mounts_), done = std::move(unmounted)]() mutable {
    mounts.clear();
    done.set_value();
  }).detach();
  waits.wait_for(timeout);
}

std::shared_ptr<CephMount> CephMounts::of(const CephAddress& address) {
  const std::lock_guard lock(mutex_);
  if (library_ == nullptr) library_ = std::make_shared<const CephLibrary>(library_name_);
  std::shared_ptr<CephMount>& mount = mounts_[address];
  if (mount == nullptr) mount = std::make_shared<CephMount>(library_, address);
  return mount;
}

int CephHandle::close() {
  if (number_ < 0) return 0;
  return mount_->library().ceph_close(mount_->get(), std::exchange(number_, -1));
}

CephCall::CephCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
                   std::shared_ptr<CephMounts> mounts)
    : BoundedCall(operation, inbox, timeout),
      mounts_(std::move(mounts)),
      kind_(operation.kind),
      path_(text_or_empty(operation.path)),
      new_path_(text_or_empty(operation.new_path)),
      flags_(operation.flags),
      mode_(operation.mode),
      offset_(operation.offset),
      layout_(operation.layout == nullptr ? Layout{} : *operation.layout),
      has_layout_(operation.layout != nullptr) {
  for (const iovec& vector : operation.vectors)
    bytes_ += static_cast<std::int64_t>(vector.iov_len);
  if (auto* file = static_cast<CephFile*>(operation.file); file != nullptr) {
    handle_ = file->handle;
    appends_ = file->append;
    writable_ = file->writable;
    inode_ = file->inode;
    if (kind_ == Kind::close) {
      closing_.reset(file);
      file->handle.reset();
    }
  }
}

std::int64_t CephCall::work(std::vector<char>& memory) {
  // Before it is answered, because a close may follow.
  const auto let_go = [this](std::int64_t result) {
    if (kind_ != Kind::close) handle_.reset();
    return result;
  };
  try {
    return let_go(handle_ == nullptr ? execute_path() : execute(memory));
  } catch (const Unavailable& reason) {
    return -reason.error_number();
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

std::int64_t CephCall::execute(std::vector<char>& memory) {
  CephMount& mount = handle_->mount();
  const CephLibrary& library = mount.library();
  switch (kind_) {
    case Kind::close:
      return close();
    case Kind::read:
      return read(memory);
    case Kind::write:
      return appends_ ? append(memory) : write(memory, offset_);
    case Kind::append:
      return append(memory);
    case Kind::sync:
    case Kind::sync_data:
      return library.ceph_fsync(mount.get(), handle_->number(), kind_ == Kind::sync_data ? 1 : 0);
    case Kind::truncate:
      if (!writable_ || offset_ < 0) return -EINVAL;
      return library.ceph_ftruncate(mount.get(), handle_->number(), offset_);
    case Kind::file_status: {
      Status status;
      const int error = status_of(mount, status, nullptr);
      if (error == 0) touch([&](Operation& operation) { operation.status = status; });
      return error;
    }
    default:
      return -EINVAL;
  }
}

std::int64_t CephCall::execute_path() {
  const Uri uri = parse_uri(path_);
  const std::shared_ptr<CephMount> mount = mounts_->of(ceph_address_of(uri));
  const CephLibrary& library = mount->library();
  if (uri.path.size() >= PATH_MAX) return -ENAMETOOLONG;
  switch (kind_) {
    case Kind::open:
      return open(mount, uri.path);
    case Kind::path_status: {
      Status status;
      const int error = explained(*mount, uri.path, status_of(*mount, status, uri.path.c_str()));
      if (error == 0) touch([&](Operation& operation) { operation.status = status; });
      return error;
    }
    case Kind::unlink:
      return explained(*mount, uri.path, library.ceph_unlink(mount->get(), uri.path.c_str()));
    case Kind::rename: {
      const Uri target = parse_uri(new_path_);
      if (ceph_address_of(target) != mount->address()) return -EXDEV;
      return library.ceph_rename(mount->get(), uri.path.c_str(), target.path.c_str());
    }
    case Kind::path_layout: {
      Layout layout;
      const int error = mount->layout_of(uri.path, layout);
      if (error == 0) touch([&](Operation& operation) { *operation.layout = layout; });
      return error;
    }
    case Kind::set_layout:
      return mount->set_layout(uri.path, layout_);
    default:
      return -EINVAL;
  }
}

int CephCall::status_of(CephMount& mount, Status& status, const char* path) {
  struct ceph_statx found {};
  const CephLibrary& library = mount.library();
  const unsigned wanted = CEPH_STATX_BASIC_STATS;
  const int error = path == nullptr
                        ? library.ceph_fstatx(mount.get(), handle_->number(), &found, wanted, 0)
                        : library.ceph_statx(mount.get(), path, &found, wanted, 0);
  if (error == 0) status = to_status(found, mount.address());
  return error;
}

int CephCall::open_number(CephMount& mount, const std::string& path) {
  const CephLibrary& library = mount.library();
  // Ferry appends by itself, and has no use for the library's direct I/O.
  const int flags = flags_ & ~(O_APPEND | O_DIRECT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const mode_t mode = mode_ & 07777 & ~umask_of_process();
  if (!has_layout_) return library.ceph_open(mount.get(), path.c_str(), flags, mode);
  if ((flags & O_CREAT) == 0 || (flags & O_EXCL) == 0) return -EINVAL;
  const Layout fitted = fitted_to_ceph(layout_);
  const auto object_bytes = fitted.extras.find(object_bytes_name);
  return library.ceph_open_layout(
      mount.get(), path.c_str(), flags, mode, static_cast<int>(fitted.stripe_bytes),
      static_cast<int>(fitted.stripe_count),
      object_bytes == fitted.extras.end() ? 0 : static_cast<int>(object_bytes->second),
      fitted.pool.empty() ? nullptr : fitted.pool.c_str());
}

// The library looks at the permissions of what a path leads through before it looks whether that is
// a directory.
int CephCall::explained(CephMount& mount, const std::string& path, int error) {
  const std::string parent = path.substr(0, path.find_last_of('/'));
  Status status;
  if (error != -EACCES || parent.empty()) return error;
  return status_of(mount, status, parent.c_str()) == 0 && !S_ISDIR(status.mode) ? -ENOTDIR : error;
}

std::int64_t CephCall::open(const std::shared_ptr<CephMount>& mount, const std::string& path) {
  if ((flags_ & O_TMPFILE) == O_TMPFILE || (flags_ & O_PATH) != 0) return -EOPNOTSUPP;
  const int number = open_number(*mount, path);
  if (number < 0) return explained(*mount, path, number);
  auto file = std::make_unique<CephFile>();
  handle_ = std::make_shared<CephHandle>(mount, number);
  Status status;
  if (const int error = status_of(*mount, status, nullptr); error != 0) return error;
  if (const int error = refusal_of_type(status.mode); error != 0) return error;
  file->opened_with(flags_);
  file->directory = S_ISDIR(status.mode);
  if (file->directory && (file->writable || (flags_ & (O_CREAT | O_TRUNC)) != 0)) return -EISDIR;
  if (!file->directory && (flags_ & O_DIRECTORY) == O_DIRECTORY) return -ENOTDIR;
  file->inode = status.inode;
  Layout granted;
  if (has_layout_) {
    if (const int error = mount->layout_of(number, granted); error != 0) return error;
  }
  file->handle = std::move(handle_);
  touch([&](Operation& operation) {
    operation.opened = std::move(file);
    if (has_layout_) *operation.layout = granted;
  });
  return 0;
}

bool CephCall::copy(char* memory, std::int64_t done, std::int64_t bytes, bool out) {
  return touch([&](Operation& operation) {
    // A page of a device's cache may change while it is written back; what is new in it follows.
    const UnseenReads unseen;
    auto skip = static_cast<std::size_t>(done);
    auto left = static_cast<std::size_t>(bytes);
    for (const iovec& vector : operation.vectors) {
      if (skip >= vector.iov_len) {
        skip -= vector.iov_len;
        continue;
      }
      const std::size_t here = std::min(left, vector.iov_len - skip);
      char* theirs = static_cast<char*>(vector.iov_base) + skip;
      std::memcpy(out ? theirs : memory, out ? memory : theirs, here);
      memory += here;
      left -= here;
      skip = 0;
      if (left == 0) return;
    }
  });
}

std::int64_t CephCall::read(std::vector<char>& memory) {
  CephMount& mount = handle_->mount();
  ceph_mount_info* client = mount.get();
  std::int64_t done = 0;
  while (done < bytes_) {
    const std::int64_t wanted = std::min(bytes_ - done, piece_bytes);
    if (static_cast<std::int64_t>(memory.size()) < wanted) {
      memory.resize(static_cast<std::size_t>(wanted));
    }
    const int got =
        mount.library().ceph_read(client, handle_->number(), memory.data(), wanted, offset_ + done);
    if (got < 0) return done > 0 ? done : got;
    if (got == 0) break;
    if (!copy(memory.data(), done, got, true)) break;
    done += got;
  }
  return done;
}

std::int64_t CephCall::write(std::vector<char>& memory, std::int64_t offset) {
  CephMount& mount = handle_->mount();
  ceph_mount_info* client = mount.get();
  std::int64_t done = 0;
  while (done < bytes_) {
    const std::int64_t wanted = std::min(bytes_ - done, piece_bytes);
    if (static_cast<std::int64_t>(memory.size()) < wanted) {
      memory.resize(static_cast<std::size_t>(wanted));
    }
    if (!copy(memory.data(), done, wanted, false)) break;
    const int written =
        mount.library().ceph_write(client, handle_->number(), memory.data(), wanted, offset + done);
    if (written < 0) return done > 0 ? done : written;
    done += written;
    if (written < wanted) break;
  }
  return done;
}

std::int64_t CephCall::append(std::vector<char>& memory) {
  const std::lock_guard turn(mounts_->turn_of(inode_));
  Status status;
  if (const int error = status_of(handle_->mount(), status, nullptr); error != 0) return error;
  const auto end = static_cast<std::int64_t>(status.size_bytes);
  const std::int64_t written = write(memory, end);
  touch([&](Operation& operation) {
    operation.value = static_cast<std::uint64_t>(end + std::max<std::int64_t>(written, 0));
  });
  return written;
}

std::int64_t CephCall::close() {
  // A call that the library keeps has it still; what that one writes is not known to arrive.
  if (handle_.use_count() > 1) return writable_ ? -EIO : 0;
  return handle_->close();
}

}  // namespace ferry::storage
