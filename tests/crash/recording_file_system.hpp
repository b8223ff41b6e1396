// A file system in this process's memory, served over FUSE, that keeps a log of what changes it, as
// recorded.hpp describes: so whole programs are recorded as they are, whatever calls they make.
//
// The kernel keeps nothing back: without its cache of writes every write arrives before its call
// returns, with the bytes that it has. What programs store in mapped files arrives when the kernel
// writes it back: at the latest by msync, by fsync and when the mapping ends. O_SYNC and O_DSYNC
// arrive as a write and a sync.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crash/fuse_device.hpp"
#include "crash/recorded.hpp"
#include "fuse/answer.hpp"

namespace ferry::test {

class RecordingFileSystem {
 public:
  using Contents = std::vector<std::pair<std::string, std::string>>;

  // A name that a program looks up to say how far it is.
  struct Mark {
    std::string name;
    std::size_t length;  // of the log
  };
  static constexpr std::string_view mark_beginning = ".crash-mark-";

  // Begins with what a folder holds, durably.
  // `old_renames`: as where no rename refuses to replace, like a mounted NFS.
  RecordingFileSystem(const std::filesystem::path& folder, bool old_renames)
      : old_renames_(old_renames) {
    add_first("", "", S_IFDIR | 0755);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder).string();
      struct stat status {};
      if (::lstat(entry.path().c_str(), &status) != 0) continue;
      if (const auto known = linked_.find(status.st_ino); known != linked_.end()) {
        add_first_link(name, known->second);
      } else if (entry.is_directory()) {
        add_first(name, "", status.st_mode);
      } else if (entry.is_regular_file()) {
        if (status.st_nlink > 1) linked_[status.st_ino] = files_.size();
        std::ifstream file(entry.path(), std::ios::binary);
        add_first(name, std::string(std::istreambuf_iterator<char>(file), {}), status.st_mode);
      }
    }
    first_length_ = log_.size();
  }
  ~RecordingFileSystem() { detach(); }
  RecordingFileSystem(const RecordingFileSystem&) = delete;
  RecordingFileSystem& operator=(const RecordingFileSystem&) = delete;

  // Appears at a folder. Returns 0 or an errno.
  int attach(const std::string& path) {
    const int device = mount_fuse("ferry-recorded", path,
                                  "rootmode=40000,allow_other,default_permissions", O_NONBLOCK);
    if (device < 0) return -device;
    device_ = device;
    path_ = path;
    server_ = std::thread([this] { serve(); });
    return 0;
  }
  void detach() {
    if (device_ < 0) return;
    umount2(path_.c_str(), MNT_DETACH | MNT_FORCE);
    server_.join();
    close(std::exchange(device_, -1));
  }

  // After detach().
  const Contents& first() const { return first_; }
  const std::vector<Recorded>& log() const { return log_; }
  // Of the log before the program: second names of the first files.
  std::size_t first_length() const { return first_length_; }
  const std::vector<Mark>& marks() const { return marks_; }

 private:
  using What = Recorded::What;

  struct File {
    std::uint32_t mode = 0;
    std::uint32_t owner = 0;
    std::uint32_t group = 0;
    std::uint32_t links = 1;
    timespec modified{};
    std::string bytes;                                      // of a symbolic link: where it leads to
    std::map<std::string, std::size_t, std::less<>> names;  // of a folder
    std::size_t parent = 0;
    std::string name;  // of a folder, in its parent
  };

  static bool is_folder(const File& file) { return S_ISDIR(file.mode); }
  static timespec now() {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return time;
  }
  void add_first(const std::string& name, std::string bytes, std::uint32_t mode) {
    const std::size_t slash = name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash);
    const std::size_t number = files_.size();
    first_.emplace_back(S_ISDIR(mode) ? name + "/" : name, bytes);
    folders_by_path_[name] = number;
    File& file = files_.emplace_back();
    file.mode = mode;
    file.modified = now();
    file.bytes = std::move(bytes);
    if (number == 0) return;
    file.parent = folders_by_path_.at(folder);
    file.name = slash == std::string::npos ? name : name.substr(slash + 1);
    files_[file.parent].names[file.name] = number;
  }
  // Another name of a file, which is there durably from the beginning.
  void add_first_link(const std::string& name, std::size_t number) {
    const std::size_t slash = name.rfind('/');
    const std::size_t folder =
        folders_by_path_.at(slash == std::string::npos ? "" : name.substr(0, slash));
    files_[folder].names[name.substr(slash + 1)] = number;
    ++files_[number].links;
    note({.what = What::link, .file = number, .name = name, .durable = true, .folder = folder});
  }
  std::string path_of(std::size_t folder, std::string_view name) const {
    std::string path(name);
    for (; folder != 0; folder = files_[folder].parent)
      path.insert(0, files_[folder].name + "/");
    return path;
  }

  // ---- requests

  // In the order in which the kernel sends them. What has been sent when an answer goes out was
  // asked for before it.
  void serve() {
    while (true) {
      if (waiting_.empty()) {
        pollfd ready{device_, POLLIN, 0};
        poll(&ready, 1, -1);
      }
      if (!take_all()) return;
      if (waiting_.empty()) continue;
      const auto [bytes, asked] = std::move(waiting_.front());
      waiting_.pop_front();
      const fuse::KernelRequest request({bytes.data(), bytes.size()});
      fuse::KernelAnswer kernel_answer;
      const std::size_t length = log_.size();
      asked_ = asked;
      answer(request, kernel_answer);
      if (!take_all()) return;
      for (std::size_t i = length; i < log_.size(); ++i)
        log_[i].answered = ++time_;
      kernel_answer.send(device_, request.header().unique);
    }
  }
  // Whether the file system is still mounted.
  bool take_all() {
    std::vector<char> memory(transfer_bytes_max + 8192);
    while (true) {
      const ssize_t got = read(device_, memory.data(), memory.size());
      if (got < 0 && (errno == EINTR || errno == ENOENT)) continue;
      if (got < 0) return errno == EAGAIN;
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return false;
      waiting_.push_back({{memory.data(), memory.data() + got}, ++time_});
    }
  }
  void answer(const fuse::KernelRequest& request, fuse::KernelAnswer& to) {
    const auto number = static_cast<std::size_t>(request.node()) - 1;
    switch (request.header().opcode) {
      case FUSE_INIT:
        return begin(request, to);
      case FUSE_LOOKUP:
        return look_up(number, request.name(), to);
      case FUSE_GETATTR:
        return add_status(number, to);
      case FUSE_SETATTR:
        return set(number, request.arguments<fuse_setattr_in>(), to);
      case FUSE_READLINK:
        return to.add_bytes(files_[number].bytes.data(), files_[number].bytes.size());
      case FUSE_SYMLINK:
        return link_symbolically(number, request, to);
      case FUSE_MKNOD: {
        const auto wanted = request.arguments<fuse_mknod_in>();
        return make(number, request.name(sizeof wanted), wanted.mode, request, to);
      }
      case FUSE_MKDIR: {
        const auto wanted = request.arguments<fuse_mkdir_in>();
        return make(number, request.name(sizeof wanted), S_IFDIR | wanted.mode, request, to);
      }
      case FUSE_UNLINK:
      case FUSE_RMDIR:
        return remove(number, request.name(), to);
      case FUSE_RENAME: {
        const auto wanted = request.arguments<fuse_rename_in>();
        return rename(number, wanted.newdir - 1, request, sizeof wanted, 0, to);
      }
      case FUSE_RENAME2: {
        const auto wanted = request.arguments<fuse_rename2_in>();
        return rename(number, wanted.newdir - 1, request, sizeof wanted, wanted.flags, to);
      }
      case FUSE_LINK: {
        const auto wanted = request.arguments<fuse_link_in>();
        return link(wanted.oldnodeid - 1, number, request.name(sizeof wanted), to);
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR:
        return to.add(fuse_open_out{});
      case FUSE_READ: {
        const auto wanted = request.arguments<fuse_read_in>();
        const std::string& bytes = files_[number].bytes;
        const std::size_t from = std::min<std::size_t>(wanted.offset, bytes.size());
        return to.add_bytes(bytes.data() + from,
                            std::min<std::size_t>(wanted.size, bytes.size() - from));
      }
      case FUSE_READDIR:
        return list(number, request.arguments<fuse_read_in>(), to);
      case FUSE_WRITE:
        return write(number, request, to);
      case FUSE_FALLOCATE:
        return allocate(number, request.arguments<fuse_fallocate_in>(), to);
      case FUSE_FSYNC:
      case FUSE_FSYNCDIR:
        return note({.what = What::sync, .file = number});
      case FUSE_STATFS:
        return add_space(to);
      case FUSE_FLUSH:
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
      case FUSE_DESTROY:
        return;
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        return to.leave_out();
      default:
        return to.fail(-ENOSYS);
    }
  }
  void begin(const fuse::KernelRequest& request, fuse::KernelAnswer& to) {
    const auto offered = request.arguments<fuse_init_in>();
    fuse_init_out made{};
    made.major = FUSE_KERNEL_VERSION;
    made.minor = FUSE_KERNEL_MINOR_VERSION;
    made.max_readahead = offered.max_readahead;
    made.flags = offered.flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES);
    made.max_write = transfer_bytes_max;
    made.max_pages = transfer_bytes_max / 4096;
    made.time_gran = 1;
    to.add(made);
  }
  void look_up(std::size_t folder, std::string_view name, fuse::KernelAnswer& to) {
    if (name.starts_with(mark_beginning))
      marks_.push_back({std::string(name.substr(mark_beginning.size())), log_.size()});
    const auto found = files_[folder].names.find(name);
    if (found == files_[folder].names.end()) return to.fail(-ENOENT);
    add_entry(found->second, to);
  }
  fuse_attr attributes(std::size_t number) const {
    const File& file = files_[number];
    fuse_attr found{};
    found.ino = number + 1;
    found.mode = file.mode;
    found.nlink = file.links;
    found.uid = file.owner;
    found.gid = file.group;
    found.size = is_folder(file) ? 4096 : file.bytes.size();
    found.blocks = (found.size + 511) / 512;
    found.blksize = 4096;
    found.mtime = found.ctime = found.atime = static_cast<std::uint64_t>(file.modified.tv_sec);
    found.mtimensec = found.ctimensec = found.atimensec =
        static_cast<std::uint32_t>(file.modified.tv_nsec);
    return found;
  }
  void add_entry(std::size_t number, fuse::KernelAnswer& to) const {
    fuse_entry_out entry{};
    entry.nodeid = number + 1;
    entry.attr = attributes(number);
    to.add(entry);
  }
  void add_status(std::size_t number, fuse::KernelAnswer& to) const {
    fuse_attr_out status{};
    status.attr = attributes(number);
    to.add(status);
  }
  static void add_space(fuse::KernelAnswer& to) {
    fuse_statfs_out space{};
    space.st.bsize = space.st.frsize = 4096;
    space.st.blocks = space.st.bfree = space.st.bavail = 1 << 20;
    space.st.files = space.st.ffree = 1 << 20;
    space.st.namelen = 255;
    to.add(space);
  }
  void list(std::size_t number, const fuse_read_in& wanted, fuse::KernelAnswer& to) const {
    std::vector<std::pair<std::string, std::size_t>> names = {{".", number},
                                                              {"..", files_[number].parent}};
    for (const auto& [name, of] : files_[number].names)
      names.emplace_back(name, of);
    std::size_t used = 0;
    for (std::size_t i = wanted.offset; i < names.size(); ++i) {
      const auto& [name, of] = names[i];
      fuse_dirent entry{};
      entry.ino = of + 1;
      entry.off = i + 1;
      entry.namelen = static_cast<std::uint32_t>(name.size());
      entry.type = files_[of].mode >> 12;
      const std::size_t bytes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name.size());
      if ((used += bytes) > wanted.size) return;
      std::string packed(bytes, '\0');
      std::memcpy(packed.data(), &entry, FUSE_NAME_OFFSET);
      std::memcpy(packed.data() + FUSE_NAME_OFFSET, name.data(), name.size());
      to.add_bytes(packed.data(), bytes);
    }
  }

  // ---- changes

  void note(Recorded record) {
    record.asked = asked_;
    log_.push_back(std::move(record));
  }
  void set(std::size_t number, const fuse_setattr_in& wanted, fuse::KernelAnswer& to) {
    File& file = files_[number];
    if ((wanted.valid & FATTR_MODE) != 0) file.mode = (file.mode & S_IFMT) | (wanted.mode & 07777U);
    if ((wanted.valid & FATTR_UID) != 0) file.owner = wanted.uid;
    if ((wanted.valid & FATTR_GID) != 0) file.group = wanted.gid;
    if ((wanted.valid & FATTR_MTIME) != 0)
      file.modified = {static_cast<time_t>(wanted.mtime), static_cast<long>(wanted.mtimensec)};
    if ((wanted.valid & FATTR_MTIME_NOW) != 0) file.modified = now();
    if ((wanted.valid & FATTR_SIZE) != 0) resize(number, wanted.size);
    add_status(number, to);
  }
  void resize(std::size_t number, std::uint64_t size) {
    File& file = files_[number];
    if (size == file.bytes.size()) return;
    file.bytes.resize(size, '\0');
    file.modified = now();
    note({.what = What::truncate, .file = number, .offset = size});
  }
  std::size_t add_file(std::size_t folder, std::string_view name, std::uint32_t mode,
                       const fuse::KernelRequest& request, std::string bytes = {}) {
    const std::size_t number = files_.size();
    File& file = files_.emplace_back();
    file.mode = mode;
    file.owner = request.header().uid;
    file.group = request.header().gid;
    file.modified = now();
    file.bytes = std::move(bytes);
    file.parent = folder;
    file.name = name;
    files_[folder].names.emplace(name, number);
    return number;
  }
  void make(std::size_t folder, std::string_view name, std::uint32_t mode,
            const fuse::KernelRequest& request, fuse::KernelAnswer& to) {
    if (files_[folder].names.contains(name)) return to.fail(-EEXIST);
    const std::size_t number = add_file(folder, name, mode, request);
    note({.what = What::create,
          .file = number,
          .name = path_of(folder, name),
          .folder = folder,
          .is_folder = S_ISDIR(mode)});
    add_entry(number, to);
  }
  // Not recorded: no program that is recorded makes one that is to last.
  void link_symbolically(std::size_t folder, const fuse::KernelRequest& request,
                         fuse::KernelAnswer& to) {
    const std::string_view name = request.name();
    if (files_[folder].names.contains(name)) return to.fail(-EEXIST);
    const std::string_view target = request.name(name.size() + 1);
    add_entry(add_file(folder, name, S_IFLNK | 0777, request, std::string(target)), to);
  }
  void link(std::size_t number, std::size_t folder, std::string_view name, fuse::KernelAnswer& to) {
    if (files_[folder].names.contains(name)) return to.fail(-EEXIST);
    files_[folder].names.emplace(name, number);
    ++files_[number].links;
    note({.what = What::link, .file = number, .name = path_of(folder, name), .folder = folder});
    add_entry(number, to);
  }
  void remove(std::size_t folder, std::string_view name, fuse::KernelAnswer& to) {
    const auto found = files_[folder].names.find(name);
    if (found == files_[folder].names.end()) return to.fail(-ENOENT);
    const std::size_t number = found->second;
    if (!files_[number].names.empty()) return to.fail(-ENOTEMPTY);
    note({.what = What::unlink,
          .file = number,
          .name = path_of(folder, name),
          .folder = folder,
          .is_folder = is_folder(files_[number])});
    --files_[number].links;
    files_[folder].names.erase(found);
  }
  void rename(std::size_t folder, std::size_t new_folder, const fuse::KernelRequest& request,
              std::size_t arguments_bytes, std::uint32_t flags, fuse::KernelAnswer& to) {
    const std::string name(request.name(arguments_bytes));
    const std::string new_name(request.name(arguments_bytes + name.size() + 1));
    if (flags != 0 && (flags != RENAME_NOREPLACE || old_renames_)) return to.fail(-EINVAL);
    const auto old = files_[folder].names.find(name);
    if (old == files_[folder].names.end()) return to.fail(-ENOENT);
    const std::size_t number = old->second;
    auto& names = files_[new_folder].names;
    if (const auto there = names.find(new_name); there != names.end()) {
      if (flags != 0) return to.fail(-EEXIST);
      if (!files_[there->second].names.empty()) return to.fail(-ENOTEMPTY);
      if (there->second == number) return;
      --files_[there->second].links;
    }
    note({.what = What::rename,
          .file = number,
          .name = path_of(folder, name),
          .new_name = path_of(new_folder, new_name),
          .folder = new_folder,
          .is_folder = is_folder(files_[number])});
    files_[folder].names.erase(old);
    names[new_name] = number;
    files_[number].parent = new_folder;
    files_[number].name = new_name;
  }
  void write(std::size_t number, const fuse::KernelRequest& request, fuse::KernelAnswer& to) {
    const auto wanted = request.arguments<fuse_write_in>();
    const std::span<const char> data = request.after(sizeof wanted).first(wanted.size);
    put(number, wanted.offset, std::string(data.begin(), data.end()));
    fuse_write_out done{};
    done.size = wanted.size;
    to.add(done);
  }
  void put(std::size_t number, std::uint64_t offset, std::string data) {
    File& file = files_[number];
    if (file.bytes.size() < offset + data.size()) file.bytes.resize(offset + data.size(), '\0');
    file.bytes.replace(offset, data.size(), data);
    file.modified = now();
    if (data.empty()) return;
    note({.what = What::write, .file = number, .offset = offset, .data = std::move(data)});
  }
  void allocate(std::size_t number, const fuse_fallocate_in& wanted, fuse::KernelAnswer& to) {
    const std::uint64_t size = files_[number].bytes.size();
    const std::uint64_t end = wanted.offset + wanted.length;
    const bool keeps_size = (wanted.mode & FALLOC_FL_KEEP_SIZE) != 0;
    const std::uint32_t other = wanted.mode & ~std::uint32_t{FALLOC_FL_KEEP_SIZE};
    if (other != 0 && other != FALLOC_FL_PUNCH_HOLE && other != FALLOC_FL_ZERO_RANGE)
      return to.fail(-EOPNOTSUPP);
    if (other != 0 && wanted.offset < size)
      put(number, wanted.offset, std::string(std::min(end, size) - wanted.offset, '\0'));
    if (!keeps_size && end > size) resize(number, end);
  }

  static constexpr std::uint32_t transfer_bytes_max = 1 << 20;

  struct Waiting {
    std::vector<char> bytes;
    std::uint64_t asked;
  };

  const bool old_renames_;
  Contents first_;
  std::map<std::string, std::size_t> folders_by_path_;
  std::map<ino_t, std::size_t> linked_;  // files with several names
  std::deque<File> files_;               // by number; they stay
  std::vector<Recorded> log_;
  std::size_t first_length_ = 0;
  std::vector<Mark> marks_;
  std::deque<Waiting> waiting_;
  std::uint64_t time_ = 0;
  std::uint64_t asked_ = 0;
  std::string path_;
  int device_ = -1;
  std::thread server_;
};

}  // namespace ferry::test
