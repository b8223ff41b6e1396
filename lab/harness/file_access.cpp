#include "harness/file_access.hpp"

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

constexpr std::uint32_t file_mode = 0644;

class FerryAccess final : public FileAccess {
 public:
  FerryAccess(const Cell& cell, std::string path, DeviceThread& thread)
      : FileAccess(std::move(path)), files_(thread.files), pending_(cell.queue_depth) {
    files_.use(cell.placement);
  }
  ~FerryAccess() override {
    if (file_ >= 0) files_.close(file_);
  }

  void open(int flags) override {
    const int result = files_.open(path().c_str(), flags, file_mode);
    check(result, "opening");
    file_ = result;
  }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return files_.pread(file_, data, bytes, static_cast<std::int64_t>(offset));
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return files_.pwrite(file_, data, bytes, static_cast<std::int64_t>(offset));
  }
  void flush() override { check(files_.flush(file_), "flushing"); }
  void sync() override { check(files_.fsync(file_), "syncing"); }
  void close() override { check(files_.close(std::exchange(file_, -1)), "closing"); }

  void start(unsigned slot, MeasuredOperation operation, void* data, std::uint64_t bytes,
             std::uint64_t offset) override {
    const auto at = static_cast<std::int64_t>(offset);
    pending_[slot] = operation == MeasuredOperation::read
                         ? files_.pread_async(file_, data, bytes, at)
                         : files_.pwrite_async(file_, data, bytes, at);
  }
  std::int64_t finish(unsigned slot) override { return files_.wait(pending_[slot]); }

 private:
  device::FileCalls<device::ThreadGroup>& files_;
  int file_ = -1;
  std::vector<device::Pending> pending_;
};

// What the interfaces with a descriptor share.
class PlainAccess : public FileAccess {
 public:
  using FileAccess::FileAccess;
  ~PlainAccess() override {
    if (fd_ >= 0) ::close(fd_);
  }

  void open(int flags) override {
    const auto mode = static_cast<mode_t>(file_mode);
    const auto result = or_errno(::open(path().c_str(), flags | O_CLOEXEC, mode));
    check(result, "opening");
    fd_ = static_cast<int>(result);
  }
  void sync() override { check(or_errno(::fsync(fd_)), "syncing"); }
  void close() override { check(or_errno(::close(std::exchange(fd_, -1))), "closing"); }

 protected:
  int fd_ = -1;
};

class PosixAccess final : public PlainAccess {
 public:
  using PlainAccess::PlainAccess;

  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    auto* to = static_cast<char*>(data);
    return all_of(bytes, [&](std::uint64_t done) {
      return ::pread(fd_, to + done, bytes - done, static_cast<off_t>(offset + done));
    });
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    const auto* from = static_cast<const char*>(data);
    return all_of(bytes, [&](std::uint64_t done) {
      return ::pwrite(fd_, from + done, bytes - done, static_cast<off_t>(offset + done));
    });
  }

 private:
  // Continues after a short or interrupted call, as programs do: the next one moves the rest or
  // says why not. (XFS writes short when it has to free what deleted files held, and has room at
  // the next call.)
  template <class Call>
  static std::int64_t all_of(std::uint64_t bytes, Call call) {
    std::uint64_t done = 0;
    while (done < bytes) {
      const std::int64_t moved = or_errno(call(done));
      if (moved == -EINTR) continue;
      if (moved < 0) return moved;
      if (moved == 0) break;
      done += static_cast<std::uint64_t>(moved);
    }
    return static_cast<std::int64_t>(done);
  }
};

// Copies between a mapping of the whole file and the buffer. Mapping counts as opening, unmapping
// as closing; page faults fall into the transfers, as they do for a program.
class MmapAccess final : public PlainAccess {
 public:
  MmapAccess(std::string path, std::uint64_t bytes) : PlainAccess(std::move(path)), bytes_(bytes) {}
  ~MmapAccess() override {
    if (map_ != nullptr) ::munmap(map_, bytes_);
  }

  void open(int flags) override {
    if ((flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
    PlainAccess::open(flags);
    if ((flags & O_CREAT) != 0) {
      check(or_errno(::ftruncate(fd_, static_cast<off_t>(bytes_))), "sizing");
    }
    const int protection = (flags & O_ACCMODE) == O_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    void* map = ::mmap(nullptr, bytes_, protection, MAP_SHARED, fd_, 0);
    if (map == MAP_FAILED) check(-errno, "mapping");
    map_ = static_cast<unsigned char*>(map);
  }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    std::memcpy(data, map_ + offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    std::memcpy(map_ + offset, data, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  void sync() override { check(or_errno(::msync(map_, bytes_, MS_SYNC)), "syncing"); }
  void close() override {
    check(or_errno(::munmap(std::exchange(map_, nullptr), bytes_)), "unmapping");
    PlainAccess::close();
  }

 private:
  std::uint64_t bytes_;
  unsigned char* map_ = nullptr;
};

// One ring for each thread, as deep as the cell's queue; nothing is registered. Each wait hands
// over what was started since the last, so that a transfer costs one system call. Setting up the
// ring counts as opening; open() throws ferry::Error where there is no io_uring.
class UringAccess final : public PlainAccess {
 public:
  UringAccess(const Cell& cell, std::string path)
      : PlainAccess(std::move(path)), cell_(cell), slots_(cell.queue_depth) {}
  ~UringAccess() override {
    // No buffer may be released while the kernel still writes to it.
    while (in_flight_ > 0 && reap()) {
    }
    drop_ring();
  }

  void open(int flags) override {
    check(io_uring_queue_init(cell_.queue_depth, &ring_, 0), "setting up io_uring for");
    has_ring_ = true;
    PlainAccess::open(flags);
  }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    start(0, MeasuredOperation::read, data, bytes, offset);
    return finish(0);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    start(0, MeasuredOperation::write, const_cast<void*>(data), bytes, offset);  // only read from
    return finish(0);
  }
  void close() override {
    PlainAccess::close();
    drop_ring();
  }

  void start(unsigned slot, MeasuredOperation operation, void* data, std::uint64_t bytes,
             std::uint64_t offset) override {
    // Never null: no more are started than the ring has entries.
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const auto length = static_cast<unsigned>(bytes);
    if (operation == MeasuredOperation::read) {
      io_uring_prep_read(entry, fd_, data, length, offset);
    } else {
      io_uring_prep_write(entry, fd_, data, length, offset);
    }
    io_uring_sqe_set_data64(entry, slot);
    slots_[slot].done = false;
    ++in_flight_;
  }
  std::int64_t finish(unsigned slot) override {
    if (slots_[slot].done && io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
    while (!slots_[slot].done) {
      if (!reap()) return -EIO;
    }
    return slots_[slot].result;
  }

 private:
  struct Slot {
    std::int64_t result = 0;
    bool done = true;
  };

  void drop_ring() {
    if (std::exchange(has_ring_, false)) io_uring_queue_exit(&ring_);
  }

  // Hands over what was started, waits for one transfer, and takes all that are done.
  bool reap() {
    const int error = io_uring_submit_and_wait(&ring_, 1);
    if (error < 0 && error != -EINTR) return false;
    io_uring_cqe* entry = nullptr;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      Slot& slot = slots_[io_uring_cqe_get_data64(entry)];
      slot.result = entry->res;
      slot.done = true;
      ++seen;
    }
    io_uring_cq_advance(&ring_, seen);
    in_flight_ -= seen;
    return true;
  }

  const Cell& cell_;
  io_uring ring_{};
  bool has_ring_ = false;
  unsigned in_flight_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace

void FileAccess::start(unsigned, MeasuredOperation, void*, std::uint64_t, std::uint64_t) {
  throw Error(ENOTSUP, "this interface has no asynchronous transfers");
}
std::int64_t FileAccess::finish(unsigned) {
  return -ENOTSUP;
}

void FileAccess::check(std::int64_t result, const char* call) const {
  if (result < 0) throw Error(static_cast<int>(-result), std::string(call) + " " + path_);
}

std::int64_t FileAccess::or_errno(std::int64_t result) {
  return result < 0 ? -errno : result;
}

std::unique_ptr<FileAccess> make_posix_access(std::string path) {
  return std::make_unique<PosixAccess>(std::move(path));
}

std::unique_ptr<FileAccess> make_access(const Cell& cell, unsigned file, DeviceThread& thread) {
  std::string path = file_path(cell, file);
  switch (cell.interface) {
    case Interface::posix:
      return make_posix_access(std::move(path));
    case Interface::mmap:
      return std::make_unique<MmapAccess>(std::move(path), file_bytes(cell, file));
    case Interface::uring:
      return std::make_unique<UringAccess>(cell, std::move(path));
    case Interface::ferry:
    case Interface::mpiio:
    case Interface::native:
      break;
  }
  return std::make_unique<FerryAccess>(cell, std::move(path), thread);
}

Accesses make_accesses(const Cell& cell, const ThreadPart& part, DeviceThread& thread) {
  const unsigned first = place_of(cell, part, part.offset_of(0)).file;
  Accesses accesses;
  for (unsigned i = 0; i < files_of_part(cell); ++i)
    accesses.push_back(make_access(cell, first + i, thread));
  return accesses;
}

int open_flags(const Cell& cell) {
  const int writes = cell.mixes() ? O_RDWR : O_WRONLY;
  return (cell.operation == MeasuredOperation::read ? O_RDONLY : writes) |
         (cell.direct ? O_DIRECT : 0);
}

}  // namespace ferry::bench
