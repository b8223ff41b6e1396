#include "bulk/open_file.hpp"

#include <cerrno>
#include <functional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/residency.hpp"

namespace ferry::bulk {

EngineFile::EngineFile(std::shared_ptr<Lanes> lanes, std::string path, int flags,
                       std::uint32_t mode)
    : lanes_(std::move(lanes)), path_(std::move(path)), flags_(flags) {
  std::int64_t error = 0;
  buffered_ = open(path_, flags, mode, error);
  if (error < 0) throw error_on_path(lanes_->storage(), error, path_);
  if (!local()) return;
  storage::Status found;
  if (error = status(found); error < 0) {
    close();
    throw error_on_path(lanes_->storage(), error, path_);
  }
  device_ = found.device;
  inode_ = found.inode;
  // The kernel opens directories but refuses every read; other storages refuse to open them.
  if (S_ISDIR(found.mode)) {
    close();
    throw Error(EISDIR, path_);
  }
}

EngineFile::EngineFile(std::shared_ptr<Lanes> lanes, const EngineFile& parents)
    : lanes_(std::move(lanes)),
      path_(parents.path_),
      flags_(parents.flags_ & ~(O_CREAT | O_EXCL | O_TRUNC)),
      device_(parents.device_),
      inode_(parents.inode_) {
  if (parents.buffered_ == nullptr) throw Error(EBADF, path_ + " is closed");
  open_same(parents);
}

// By the parent's descriptor, of which this process has a copy unless it has closed it.
void EngineFile::open_same(const EngineFile& parents) {
  std::int64_t error = 0;
  for (const std::string& path :
       {parents.local() ? parents.path_of_descriptor() : path_, std::string(path_)}) {
    buffered_ = open(path, flags_, 0, error);
    if (buffered_ == nullptr) continue;
    if (!local()) return;
    storage::Status found;
    error = status(found);
    if (error == 0 && found.device == device_ && found.inode == inode_) return;
    close_one(buffered_.release());
    if (error == 0) error = -ESTALE;
  }
  throw error_on_path(lanes_->storage(), error, path_);
}

EngineFile::~EngineFile() {
  if (!made_here_) {  // the parent's: its descriptors are copies, its locks may be held for ever
    static_cast<void>(buffered_.release());
    static_cast<void>(direct_.release());
    static_cast<void>(gpu_direct_.release());
    return;
  }
  close();
}

std::unique_ptr<storage::File> EngineFile::open(const std::string& path, int flags,
                                                std::uint32_t mode, std::int64_t& error) {
  storage::Operation open{
      .kind = storage::Kind::open, .path = path.c_str(), .flags = flags, .mode = mode};
  error = Lanes::Use(*lanes_)->run(open);
  return std::move(open.opened);
}

std::int64_t EngineFile::status(storage::Status& found) {
  storage::Operation operation{.kind = storage::Kind::file_status};
  const std::int64_t error = control(operation);
  found = operation.status;
  return error;
}

std::uint64_t EngineFile::place() const {
  if (local()) return device_;
  const std::string_view path = path_;
  const std::size_t colon = path.find(':');
  const bool has_host = colon != path.npos && path.substr(colon + 1).starts_with("//");
  return std::hash<std::string_view>{}(
      path.substr(0, has_host ? path.find('/', colon + 3) : colon));
}

// It resolves to the inode, also after rename, unlink and chdir.
std::string EngineFile::path_of_descriptor() const {
  if (descriptor() < 0) return path_;  // a storage for tests, whose names do not change
  return "/proc/self/fd/" + std::to_string(descriptor());
}

bool EngineFile::begin_use() {
  if ((uses_.fetch_add(1, std::memory_order_acquire) & closing) == 0) return true;
  end_use();
  return false;
}

void EngineFile::end_use() {
  if (uses_.fetch_sub(1, std::memory_order_release) == closing + 1) uses_.notify_all();
}

std::int64_t EngineFile::close() {
  if ((uses_.fetch_or(closing, std::memory_order_acq_rel) & closing) != 0) return 0;
  for (;;) {
    const std::uint64_t uses = uses_.load(std::memory_order_acquire);
    if (uses == closing) break;
    uses_.wait(uses, std::memory_order_acquire);
  }
  std::int64_t error = 0;
  if (probe_ >= 0) ::close(probe_);
  gpu_direct_.reset();
  for (std::unique_ptr<storage::File>* file : {&direct_, &buffered_}) {
    if (*file == nullptr) continue;
    const std::int64_t result = close_one(file->release());
    if (result < 0) error = result;
  }
  return error;
}

std::int64_t EngineFile::close_one(storage::File* file) {
  return Lanes::Use(*lanes_)->run({.kind = storage::Kind::close, .file = file});
}

storage::File* EngineFile::direct() {
  if (!local()) return nullptr;
  if (always_direct()) return buffered_.get();
  if (direct_refused_.load(std::memory_order_relaxed)) return nullptr;
  std::call_once(direct_once_, [this] {
    // Only for reading: buffered writes through other handles would have to wait for direct ones.
    if ((flags_ & O_ACCMODE) == O_WRONLY) return;
    std::int64_t error = 0;
    direct_ = open(path_of_descriptor(), O_RDONLY | O_DIRECT, 0, error);
  });
  return direct_.get();
}

const cuda::GpuDirectFile* EngineFile::gpu_direct(cuda::Gpus& gpus) {
  if (gpu_direct_refused_.load(std::memory_order_relaxed)) return nullptr;
  std::call_once(gpu_direct_once_, [&] { gpu_direct_ = make_gpu_direct(gpus); });
  return gpu_direct_.get();
}

std::unique_ptr<const cuda::GpuDirectFile> EngineFile::make_gpu_direct(cuda::Gpus& gpus) {
  const storage::File* file = direct();
  if (file == nullptr || file->direct_descriptor() < 0) {
    why_no_gpu_direct_ = "no direct I/O to this file";
    return nullptr;
  }
  std::shared_ptr<const cuda::GpuDirectDriver> driver = gpus.direct_driver(why_no_gpu_direct_);
  if (driver == nullptr) return nullptr;
  try {
    return std::make_unique<const cuda::GpuDirectFile>(std::move(driver),
                                                       file->direct_descriptor());
  } catch (const Error& error) {
    why_no_gpu_direct_ = error.reason();
    return nullptr;
  }
}

int EngineFile::probe() {
  std::call_once(probe_once_, [this] {
    if (local() && (flags_ & O_ACCMODE) != O_WRONLY)
      probe_ = ::open(path_of_descriptor().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  });
  return probe_;
}

std::optional<std::uint64_t> EngineFile::resident_bytes(std::uint64_t offset, std::uint64_t bytes) {
  const int fd = probe();
  if (fd < 0) return std::nullopt;
  return ferry::resident_bytes(fd, offset, bytes);
}

std::int64_t EngineFile::control(storage::Operation& operation) {
  operation.file = buffered_.get();
  return Lanes::Use(*lanes_)->run(operation);
}

}  // namespace ferry::bulk
