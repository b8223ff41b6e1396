#include "tools/file_access.hpp"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

constexpr std::uint32_t file_mode = 0644;

void check(std::int64_t result, const Cell& cell, const char* call) {
  if (result < 0) throw Error(static_cast<int>(-result), std::string(call) + " " + cell.path);
}

std::int64_t or_errno(std::int64_t result) {
  return result < 0 ? -errno : result;
}

class FerryAccess final : public FileAccess {
 public:
  FerryAccess(const Cell& cell, DeviceThread& thread)
      : cell_(cell), files_(thread.files), pending_(cell.queue_depth) {
    files_.use(cell.placement);
  }
  ~FerryAccess() override {
    if (file_ >= 0) files_.close(file_);
  }

  void open(int flags) override {
    const int result = files_.open(cell_.path.c_str(), flags, file_mode);
    check(result, cell_, "opening");
    file_ = result;
  }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return files_.pread(file_, data, bytes, static_cast<std::int64_t>(offset));
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return files_.pwrite(file_, data, bytes, static_cast<std::int64_t>(offset));
  }
  void flush() override { check(files_.flush(file_), cell_, "flushing"); }
  void sync() override { check(files_.fsync(file_), cell_, "syncing"); }
  void close() override {
    const int file = file_;
    file_ = -1;
    check(files_.close(file), cell_, "closing");
  }

  void start(unsigned slot, void* data, std::uint64_t bytes, std::uint64_t offset) override {
    const auto at = static_cast<std::int64_t>(offset);
    pending_[slot] = cell_.operation == Operation::read
                         ? files_.pread_async(file_, data, bytes, at)
                         : files_.pwrite_async(file_, data, bytes, at);
  }
  std::int64_t finish(unsigned slot) override { return files_.wait(pending_[slot]); }

 private:
  const Cell& cell_;
  device::FileCalls<device::ThreadGroup>& files_;
  int file_ = -1;
  std::vector<device::Pending> pending_;
};

class PosixAccess final : public FileAccess {
 public:
  explicit PosixAccess(const Cell& cell) : cell_(cell) {}
  ~PosixAccess() override {
    if (fd_ >= 0) ::close(fd_);
  }

  void open(int flags) override {
    const auto result =
        or_errno(::open(cell_.path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(file_mode)));
    check(result, cell_, "opening");
    fd_ = static_cast<int>(result);
  }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return or_errno(::pread(fd_, data, bytes, static_cast<off_t>(offset)));
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return or_errno(::pwrite(fd_, data, bytes, static_cast<off_t>(offset)));
  }
  void sync() override { check(or_errno(::fsync(fd_)), cell_, "syncing"); }
  void close() override {
    const int fd = fd_;
    fd_ = -1;
    check(or_errno(::close(fd)), cell_, "closing");
  }

 private:
  const Cell& cell_;
  int fd_ = -1;
};

// Copies between a mapping of the whole file and the buffer. Mapping counts as opening, unmapping
// as closing; page faults fall into the transfers, as they do for a program.
class MmapAccess final : public FileAccess {
 public:
  explicit MmapAccess(const Cell& cell) : cell_(cell) {}
  ~MmapAccess() override {
    if (map_ != nullptr) ::munmap(map_, cell_.total_bytes);
    if (fd_ >= 0) ::close(fd_);
  }

  void open(int flags) override {
    if ((flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
    const auto result =
        or_errno(::open(cell_.path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(file_mode)));
    check(result, cell_, "opening");
    fd_ = static_cast<int>(result);
    if ((flags & O_CREAT) != 0) {
      check(or_errno(::ftruncate(fd_, static_cast<off_t>(cell_.total_bytes))), cell_, "sizing");
    }
    const int protection = (flags & O_ACCMODE) == O_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    void* map = ::mmap(nullptr, cell_.total_bytes, protection, MAP_SHARED, fd_, 0);
    if (map == MAP_FAILED) check(-errno, cell_, "mapping");
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
  void sync() override {
    check(or_errno(::msync(map_, cell_.total_bytes, MS_SYNC)), cell_, "syncing");
  }
  void close() override {
    unsigned char* map = map_;
    map_ = nullptr;
    check(or_errno(::munmap(map, cell_.total_bytes)), cell_, "unmapping");
    const int fd = fd_;
    fd_ = -1;
    check(or_errno(::close(fd)), cell_, "closing");
  }

 private:
  const Cell& cell_;
  int fd_ = -1;
  unsigned char* map_ = nullptr;
};

}  // namespace

void FileAccess::start(unsigned, void*, std::uint64_t, std::uint64_t) {
  throw Error(ENOTSUP, "this interface has no asynchronous transfers");
}
std::int64_t FileAccess::finish(unsigned) {
  return -ENOTSUP;
}

std::unique_ptr<FileAccess> make_access(const Cell& cell, DeviceThread& thread) {
  switch (cell.interface) {
    case Interface::posix:
      return std::make_unique<PosixAccess>(cell);
    case Interface::mmap:
      return std::make_unique<MmapAccess>(cell);
    case Interface::ferry:
      break;
  }
  return std::make_unique<FerryAccess>(cell, thread);
}

int open_flags(const Cell& cell) {
  return (cell.operation == Operation::read ? O_RDONLY : O_WRONLY) | (cell.direct ? O_DIRECT : 0);
}

}  // namespace ferry::bench
