#include "storage/ceph/call.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/times.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

// Writers count the file's changes, and tell the servers before another client may read. The time
// is added for clients that do not count all of them.
std::uint64_t version_of(const ceph::Statx& from) {
  if ((from.mask & ceph::version_member) == 0) return 0;
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;  // keeps the two from making up for each other
  return from.version * odd + static_cast<std::uint64_t>(ns_of(from.changed));
}

// False: there is no memory.
bool has_room(std::vector<char>& memory, std::int64_t bytes) {
  try {
    make_room(memory, bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

Status to_status(const ceph::Statx& from, const CephAddress& address) {
  Status to;
  to.size_bytes = from.size_bytes;
  to.allocated_bytes = from.blocks * 512;
  to.inode = from.inode;
  // The highest bit keeps it apart from the kernel's numbers.
  const std::uint64_t cluster =
      std::hash<std::string>()(address.configuration + '\n' + address.file_system);
  to.device = (from.device ^ cluster) | (std::uint64_t{1} << 63);
  to.accessed_ns = ns_of(from.accessed);
  to.modified_ns = ns_of(from.modified);
  to.changed_ns = ns_of(from.changed);
  to.mode = from.mode;
  to.links = from.links;
  to.owner = from.owner;
  to.group = from.group;
  to.block_bytes = from.block_bytes;
  to.version = version_of(from);
  return to;
}

CephAddress ceph_address_of(const Uri& uri) {
  uri.allow_only("conf fs gid timeout uid user");
  CephAddress address;
  address.configuration = uri.text("conf");
  address.user = uri.text("user");
  address.file_system = uri.text("fs");
  address.uid = uri.uid();
  address.gid = uri.gid();
  address.timeout = uri.timeout();
  return address;
}

CephHandle::~CephHandle() {
  if (number() < 0 || CephMounts::owner().is_ancestor()) return;
  place_.front() = number();
  CephMount::close_later(mount_, place_);
}

int CephHandle::close() {
  if (number() < 0 || CephMounts::owner().is_ancestor()) return 0;
  return mount_->library().ceph_close(mount_->get(),
                                      number_.exchange(-1, std::memory_order_relaxed));
}

// A window that ends where stripe units do needs no server which its read does not. (Objects hold
// whole stripe units.)
bool CephHandle::fits_windows() {
  if (windows_ == Windows::unknown) {
    Layout layout;
    const bool fits = mount_->layout_of(number(), layout) == 0 && layout.stripe_bytes > 0 &&
                      layout.stripe_bytes % CephReadahead::window_max == 0;
    windows_ = fits ? Windows::fit : Windows::none;
  }
  return may_have_windows();
}

bool CephHandle::ask_size(const std::shared_ptr<CephHandle>& file) noexcept {
  unsigned idle = 0;
  if (!file->questions_.compare_exchange_strong(idle, asking)) return false;
  const bool started =
      CephMount::start_asking(file->mount_, [file = std::shared_ptr(file)]() mutable {
        ceph::Statx found;
        CephMount& mount = *file->mount_;
        mount.library().ceph_fstatx(mount.get(), file->number(), &found, ceph::basic_members, 0);
        file->questions_ &= ~asking;
        file.reset();
      });
  if (!started) file->questions_ &= ~asking;
  return started;
}

BoundedCall::Clock::time_point CephHandle::wake(const std::shared_ptr<CephHandle>& file,
                                                BoundedCall::Clock::time_point now) noexcept {
  if (now - file->slow_at_ > calm_time) file->distance_ = slow_time;
  file->slow_at_ = now;
  if (now >= file->ask_at_) {
    if (ask_size(file)) {
      using Time = BoundedCall::Clock::duration;
      const Time quarter = file->mount_->address().timeout / 4;
      file->distance_ = std::min<Time>({2 * file->distance_, distance_max, quarter});
    }
    file->ask_at_ = now + file->distance_;
  }
  return file->ask_at_;
}

CephCall::CephCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
                   std::shared_ptr<CephMounts> mounts)
    : RemoteCall(operation, inbox, timeout), mounts_(std::move(mounts)) {
  auto* file = static_cast<CephFile*>(operation.file);
  if (file == nullptr) return;
  handle_ = kind_ == Kind::close ? std::move(file->handle) : file->handle;
  if (kind_ == Kind::read) read_ = handle_;
}

BoundedCall::Clock::time_point CephCall::help(Clock::time_point now) {
  if (kind_ != Kind::read) return Clock::time_point::max();
  if (help_at_ == Clock::time_point{}) {  // it begins
    help_at_ = now + CephHandle::slow_time;
  } else if (now >= help_at_) {
    const auto file = read_.lock();
    help_at_ = file == nullptr ? Clock::time_point::max() : CephHandle::wake(file, now);
  }
  return help_at_;
}

void CephCall::let_go() {
  if (handle_ != nullptr && handle_.use_count() == 1) {
    handle_->end_questions();
    if (handle_.use_count() == 1) handle_->close();  // else the question closes it
  }
  handle_.reset();
}

std::int64_t CephCall::execute(std::vector<char>& memory) {
  std::shared_ptr<CephMount> mount;
  std::int64_t result = 0;
  if (handle_ != nullptr) {
    mount = handle_->mount();
    CephMount::close_dropped(mount);
    if (const int error = may_begin(); error != 0 && kind_ != Kind::close) return error;
    result = execute_on_file(*mount, memory);
    // The library's error if it cannot ask whether the pool may be used.
    if (result == -EIO && kind_ != Kind::close && mount->lost()) result = -ESHUTDOWN;
  } else {
    const Uri uri = parse_uri(path_);
    mount = mounts_->of(ceph_address_of(uri));
    CephMount::close_dropped(mount);
    mount->get();  // may take long
    if (const int error = may_begin(); error != 0) return error;
    result = execute_path(mount, uri);
  }
  // Not repeated through another client: changes of names may have happened.
  if (result == -ESHUTDOWN) mount->lose();
  return result;
}

std::int64_t CephCall::execute_on_file(CephMount& mount, std::vector<char>& memory) {
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
      return sync(kind_ == Kind::sync_data);
    case Kind::truncate:
      if (!writable_ || offset_ < 0) return -EINVAL;
      return change(changes_, [&] {
        return library.ceph_ftruncate(mount.get(), handle_->number(), offset_);
      });
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

std::int64_t CephCall::execute_path(const std::shared_ptr<CephMount>& mount, const Uri& uri) {
  const CephLibrary& library = mount->library();
  if (uri.path.size() >= PATH_MAX) return -ENAMETOOLONG;
  if (const int error = refusal_of_name(*mount, uri.path); error != 0) return error;
  const int of_link = (flags_ & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  switch (kind_) {
    case Kind::open:
      return open(mount, uri.path);
    case Kind::path_status: {
      Status status;
      const int error =
          explained(*mount, uri.path,
                    status_of(*mount, status, uri.path.c_str(), static_cast<unsigned>(of_link)));
      if (error == 0) touch([&](Operation& operation) { operation.status = status; });
      return error;
    }
    case Kind::unlink:
      return explained(*mount, uri.path, library.ceph_unlink(mount->get(), uri.path.c_str()));
    case Kind::rename:
    case Kind::add_name: {
      const Uri target = parse_uri(new_path_);
      if (ceph_address_of(target) != mount->address()) return -EXDEV;
      return kind_ == Kind::rename ? rename(*mount, uri.path, target.path)
                                   : add_name(*mount, uri.path, target.path);
    }
    case Kind::read_link:
      return explained(*mount, uri.path, read_link(*mount, uri.path));
    case Kind::make_link:
      return explained(*mount, uri.path, make_link(*mount, uri.path));
    case Kind::make_directory:
      return explained(
          *mount, uri.path,
          library.ceph_mkdir(mount->get(), uri.path.c_str(), mode_ & 07777 & ~umask_of_process()));
    case Kind::remove_directory:
      return explained(*mount, uri.path, library.ceph_rmdir(mount->get(), uri.path.c_str()));
    case Kind::set_attributes:
      return explained(*mount, uri.path, set_attributes(*mount, uri.path, of_link));
    case Kind::list_directory:
      return explained(*mount, uri.path, list_directory(*mount, uri.path));
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

// libcephfs has no clock of the servers for this: `now` is this machine's.
int CephCall::set_attributes(CephMount& mount, const std::string& path, int of_link) {
  ceph::Statx to;
  int wanted = 0;
  if (attributes_.mode) {
    wanted |= ceph::set_mode;
    to.mode = static_cast<std::uint16_t>(*attributes_.mode & 07777);
  }
  if (attributes_.owner) {
    wanted |= ceph::set_owner;
    to.owner = *attributes_.owner;
  }
  if (attributes_.group) {
    wanted |= ceph::set_group;
    to.group = *attributes_.group;
  }
  const auto set_time = [&](timespec& time, const std::optional<std::int64_t>& ns, int member) {
    if (!ns) return;
    wanted |= member;
    time = timespec_of(*ns);
    if (*ns == NewAttributes::now) clock_gettime(CLOCK_REALTIME, &time);
  };
  set_time(to.accessed, attributes_.accessed_ns, ceph::set_accessed);
  set_time(to.modified, attributes_.modified_ns, ceph::set_modified);
  return mount.library().ceph_setattrx(mount.get(), path.c_str(), &to, wanted, of_link);
}

int CephCall::status_of(CephMount& mount, Status& status, const char* path, unsigned flags) {
  ceph::Statx found;
  const CephLibrary& library = mount.library();
  const unsigned wanted = ceph::basic_members | ceph::version_member;
  const int error = path == nullptr
                        ? library.ceph_fstatx(mount.get(), handle_->number(), &found, wanted, 0)
                        : library.ceph_statx(mount.get(), path, &found, wanted, flags);
  if (error == 0) status = to_status(found, mount.address());
  return error;
}

int CephCall::open_number(CephMount& mount, const std::string& path) {
  const CephLibrary& library = mount.library();
  // Ferry appends itself, and truncates once it knows the file. The library's direct I/O would not
  // be faster; see open().
  const int not_passed_on =
      O_APPEND | O_DIRECT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (truncates_opened() ? O_TRUNC : 0);
  const int flags = flags_ & ~not_passed_on;
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

// A file open only for reading can be truncated only by opening it.
bool CephCall::truncates_opened() const {
  return (flags_ & O_TRUNC) != 0 && (flags_ & O_ACCMODE) != O_RDONLY;
}

std::int64_t CephCall::open(const std::shared_ptr<CephMount>& mount, const std::string& path) {
  if ((flags_ & O_TMPFILE) == O_TMPFILE || (flags_ & O_PATH) != 0) return -EOPNOTSUPP;
  // Made before: once the library has a file open, there must be memory to close it.
  auto file = std::make_unique<CephFile>();
  handle_ = std::make_shared<CephHandle>(mount);
  const int number = open_number(*mount, path);
  if (number < 0) return explained(*mount, path, number);
  handle_->opened(number, (flags_ & O_DIRECT) != 0);
  Status status;
  if (const int error = status_of(*mount, status, nullptr); error != 0) return error;
  if (const int error = refusal_of_type(status.mode); error != 0) return error;
  file->opened_with(flags_);
  file->directory = S_ISDIR(status.mode);
  if (file->directory && (file->writable || (flags_ & (O_CREAT | O_TRUNC)) != 0)) return -EISDIR;
  if (!file->directory && (flags_ & O_DIRECTORY) == O_DIRECTORY) return -ENOTDIR;
  file->changes = LateChanges::of(status.device, status.inode);
  if (truncates_opened() && status.size_bytes > 0) {
    const int error = change(
        file->changes, [&] { return mount->library().ceph_ftruncate(mount->get(), number, 0); });
    if (error != 0) return error;
  }
  // Who opens a file for direct I/O wants none of it from a cache on this machine.
  if ((flags_ & O_DIRECT) != 0 && !file->directory) {
    const int error = mount->library().ceph_lazyio_synchronize(mount->get(), number, 0, 0);
    if (error != 0) return error;
  }
  file->appending = AppendTurn::of(status.device, status.inode);
  file->timeout = mount->address().timeout;
  Layout granted;
  if (has_layout_) {
    if (const int error = mount->layout_of(number, granted); error != 0) return error;
  }
  file->handle = std::move(handle_);
  touch([&](Operation& operation) {
    if (has_layout_) *operation.layout = std::move(granted);
    operation.opened = std::move(file);
  });
  return 0;
}

std::int64_t CephCall::read_at(char* memory, std::int64_t bytes, std::int64_t offset) {
  CephMount& mount = *handle_->mount();
  for (;;) {
    const std::int64_t got =
        mount.library().ceph_read(mount.get(), handle_->number(), memory, bytes, offset);
    // While another client makes the file longer, a short read may lack its first bytes, and have
    // later ones in their place. One that is whole does not.
    if (got <= 0 || got == bytes) return got;
    if (const int over = may_begin(); over != 0) return over;
    bytes = got;
  }
}

// Of this client to the open file, now.
bool CephCall::has_right(int right) {
  CephMount& mount = *handle_->mount();
  const int rights = mount.library().ceph_debug_get_fd_caps(mount.get(), handle_->number());
  return rights > 0 && (rights & right) != 0;
}

CephReadahead::Reach CephCall::reach_of_read(std::int64_t bytes, std::int64_t offset) {
  const CephReadahead::Reach plain{.offset = offset, .bytes = bytes};
  if (!handle_->may_have_windows()) return plain;
  const CephReadahead::Reach reach = handle_->readahead().begin(offset, bytes);
  // Without this right, the library keeps nothing of what it reads.
  if (!reach.is_window || (handle_->fits_windows() && has_right(ceph::may_cache))) return reach;
  handle_->readahead().drop(reach);
  return plain;
}

std::int64_t CephCall::read_piece(std::vector<char>& memory, std::int64_t bytes,
                                  std::int64_t offset) {
  CephReadahead& readahead = handle_->readahead();
  CephReadahead::Reach reach = reach_of_read(bytes, offset);
  if (reach.is_window && !has_room(memory, reach.bytes)) {
    readahead.drop(reach);
    reach = {.offset = offset, .bytes = bytes};
  }
  const auto begin = Clock::now();
  const std::int64_t got = read_at(memory.data(), reach.bytes, offset);
  const auto took = Clock::now() - begin;
  if (got >= 0) readahead.end(reach, got, took);
  if (!reach.is_window) return got;
  // A slow one must not cost the call its time: the next ones are short.
  if (got < 0 || took > handle_->mount()->address().timeout / 8) readahead.drop(reach);
  if (got >= 0) return std::min(got, bytes);
  // The bytes behind may be at fault.
  const int over = may_begin();
  return over != 0 ? over : read_at(memory.data(), bytes, offset);
}

std::int64_t CephCall::write_piece(char* memory, std::int64_t bytes, std::int64_t offset) {
  CephMount& mount = *handle_->mount();
  return change(changes_, [&] {
    return mount.library().ceph_write(mount.get(), handle_->number(), memory, bytes, offset);
  });
}

// A write that the library keeps for later is copied under the lock that all calls of the client
// share, into memory of its own that goes to a server as it is. In pieces of 1 MiB both are cheaper
// than in larger ones. Where the library waits for the servers, larger pieces are.
std::int64_t CephCall::write_piece_max() {
  constexpr std::int64_t kept_bytes = std::int64_t{1} << 20;
  if (synchronous_ || bytes_ <= kept_bytes) return piece_bytes;
  return has_right(ceph::may_buffer) ? kept_bytes : piece_bytes;
}

std::int64_t CephCall::size_now() {
  Status status;
  const int error = status_of(*handle_->mount(), status, nullptr);
  return error != 0 ? error : static_cast<std::int64_t>(status.size_bytes);
}

int CephCall::sync(bool only_data) {
  CephMount& mount = *handle_->mount();
  return mount.library().ceph_fsync(mount.get(), handle_->number(), only_data ? 1 : 0);
}

std::int64_t CephCall::close() {
  handle_->end_questions();
  const auto others = handle_.use_count() - 1;
  if (others == 0) return handle_->close();
  // Calls that were given up are in the library with it, or a question; the last of them closes it.
  const bool only_asked = others == 1 && handle_->is_asked();
  if (!only_asked) handle_->allow_questions();  // one of these calls may be a forgotten read
  if (!writable_) return 0;
  // Of a call that was given up it is not known whether what it writes arrives. With a question
  // alone, a late change is that of another handle.
  if (!only_asked && changes_->error() != 0) return -EIO;
  // The library would tell here of writes that it could not store.
  return sync(false);
}

}  // namespace ferry::storage
