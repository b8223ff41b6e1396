// A disk in this process's memory that the kernel uses as a file (of a FUSE file system that has
// nothing else), so that a loop device and a file system can lie on it. It keeps a log of what it
// was sent, and makes of it what a disk holds whose power went: what was flushed, and any part of
// the rest, down to single sectors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crash/fuse_device.hpp"
#include "fuse/answer.hpp"
#include "support/depth.hpp"

namespace ferry::test {

class ForgetfulDisk {
 public:
  static constexpr std::size_t sector_bytes = 512;
  // The superblock of ext4 fills two sectors, with a checksum over both, and has to be right before
  // its journal can mend anything: these two stay together.
  static constexpr std::size_t superblock_middle = 1536;

  explicit ForgetfulDisk(std::size_t bytes) : contents_(bytes, '\0') {
    void* memory = mmap(nullptr, sizeof(std::atomic<std::size_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::system_category(), "mmap");
    length_ = new (memory) std::atomic<std::size_t>(0);
  }
  ~ForgetfulDisk() {
    detach();
    munmap(length_, sizeof *length_);
  }
  ForgetfulDisk(const ForgetfulDisk&) = delete;
  ForgetfulDisk& operator=(const ForgetfulDisk&) = delete;

  // Appears as the file `path`, which is there. Returns 0 or an errno.
  int attach(const std::string& path) {
    const int device = mount_fuse("ferry-disk", path, "rootmode=100600");
    if (device < 0) return -device;
    device_ = device;
    path_ = path;
    server_ = std::thread([this] { serve(); });
    return 0;
  }
  // In a child: else the disk would outlive its process.
  void leave() { close(std::exchange(device_, -1)); }
  void detach() {
    if (device_ < 0) return;
    umount2(path_.c_str(), MNT_DETACH | MNT_FORCE);
    server_.join();
    close(std::exchange(device_, -1));
  }

  // How many writes and flushes it has got. Also for children of this process.
  std::size_t length() const { return *length_; }
  std::size_t flushes() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(log_.begin(), log_.end(), [](const Entry& one) { return one.is_flush; }));
  }
  // What a disk holds that lost its power when it had got the first `length` of them. If it lies,
  // it takes flushes for nothing since it had the first `lies_since`; 0: it does not.
  std::string after_cut(std::size_t lies_since, std::size_t length, Random& random) {
    const std::lock_guard lock(mutex_);
    std::size_t durable = lies_since;
    for (std::size_t i = 0; i < length && lies_since == 0; ++i)
      if (log_[i].is_flush) durable = std::max(durable, log_[i].covers);
    std::string image(contents_.size(), '\0');
    const std::uint64_t kept_of_8 = random.below(9);  // from none to all
    for (std::size_t i = 0; i < length; ++i) {
      const Entry& one = log_[i];
      const bool whole = random.below(8) < kept_of_8;
      const bool torn = random.one_in(4);
      bool keeps = true;
      for (std::size_t at = 0; at < one.data.size(); at += sector_bytes) {
        const bool is_split = torn && one.offset + at != superblock_middle;
        if (i >= durable && (is_split || at == 0))
          keeps = torn ? random.below(8) < kept_of_8 : whole;
        if (!keeps) continue;
        const std::size_t bytes = std::min(sector_bytes, one.data.size() - at);
        image.replace(one.offset + at, bytes, one.data, at, bytes);
      }
    }
    return image;
  }

 private:
  struct Entry {
    bool is_flush;
    std::size_t covers;  // the entries before it when it was asked for
    std::size_t offset;
    std::string data;
  };

  // One request after the other, so that the log is in the order of the answers.
  void serve() {
    std::vector<char> memory(transfer_bytes_max + 8192);
    while (true) {
      const ssize_t got = read(device_, memory.data(), memory.size());
      if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
      const fuse::KernelRequest request({memory.data(), static_cast<std::size_t>(got)});
      fuse::KernelAnswer kernel_answer;
      answer(request, kernel_answer);
      kernel_answer.send(device_, request.header().unique);
    }
  }
  void answer(const fuse::KernelRequest& request, fuse::KernelAnswer& to) {
    switch (request.header().opcode) {
      case FUSE_INIT: {
        const auto offered = request.arguments<fuse_init_in>();
        fuse_init_out made{};
        made.major = FUSE_KERNEL_VERSION;
        made.minor = FUSE_KERNEL_MINOR_VERSION;
        made.max_readahead = offered.max_readahead;
        made.flags = offered.flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES);
        made.max_write = transfer_bytes_max;
        return to.add(made);
      }
      case FUSE_GETATTR:
      case FUSE_SETATTR: {
        fuse_attr_out status{};
        status.attr.ino = FUSE_ROOT_ID;
        status.attr.mode = S_IFREG | 0600;
        status.attr.nlink = 1;
        status.attr.size = contents_.size();
        status.attr.blksize = 4096;
        return to.add(status);
      }
      case FUSE_OPEN: {
        fuse_open_out opened{};
        opened.open_flags = FOPEN_DIRECT_IO;  // no copy of it in the kernel
        return to.add(opened);
      }
      case FUSE_READ:
        return read_from(request.arguments<fuse_read_in>(), to);
      case FUSE_WRITE:
        return write_to_disk(request, to);
      case FUSE_FSYNC: {
        const std::lock_guard lock(mutex_);
        log_.push_back({true, log_.size(), 0, {}});
        *length_ = log_.size();
        return;
      }
      case FUSE_FLUSH:
      case FUSE_RELEASE:
      case FUSE_DESTROY:
        return;
      case FUSE_FORGET:
      case FUSE_INTERRUPT:
        return to.leave_out();
      default:
        return to.fail(-ENOSYS);
    }
  }
  void read_from(const fuse_read_in& wanted, fuse::KernelAnswer& to) {
    const std::lock_guard lock(mutex_);
    const std::size_t begin = std::min<std::size_t>(wanted.offset, contents_.size());
    to.add_bytes(contents_.data() + begin,
                 std::min<std::size_t>(wanted.size, contents_.size() - begin));
  }
  void write_to_disk(const fuse::KernelRequest& request, fuse::KernelAnswer& to) {
    const auto wanted = request.arguments<fuse_write_in>();
    const std::span<const char> data = request.after(sizeof wanted);
    if (wanted.offset + data.size() > contents_.size()) return to.fail(-ENOSPC);
    const std::lock_guard lock(mutex_);
    std::memcpy(contents_.data() + wanted.offset, data.data(), data.size());
    log_.push_back({false, 0, wanted.offset, std::string(data.begin(), data.end())});
    *length_ = log_.size();
    fuse_write_out done{};
    done.size = static_cast<std::uint32_t>(data.size());
    to.add(done);
  }

  static constexpr std::uint32_t transfer_bytes_max = 128 << 10;

  std::mutex mutex_;
  std::string contents_;
  std::atomic<std::size_t>* length_ = nullptr;  // shared
  std::vector<Entry> log_;
  std::string path_;
  int device_ = -1;
  std::thread server_;
};

}  // namespace ferry::test
