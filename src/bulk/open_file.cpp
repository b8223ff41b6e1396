#include "bulk/open_file.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bulk/gpus.hpp"
#include "bulk/residency.hpp"
#include "storage/posix_file.hpp"

namespace ferry::bulk {

OpenFile::OpenFile(std::shared_ptr<Lanes> lanes, std::string path, int flags, std::uint32_t mode)
    : lanes_(std::move(lanes)), path_(std::move(path)), flags_(flags) {
  std::int64_t error = 0;
  buffered_ = open_again(flags, mode, error);
  if (error < 0) throw Error(static_cast<int>(-error), path_);
  if (is_directory()) {
    close();
    throw Error(EISDIR, path_);
  }
}

OpenFile::~OpenFile() {
  if (!made_here_) {  // the parent's: its descriptors are copies, its locks may be held for ever
    static_cast<void>(buffered_.release());
    static_cast<void>(direct_.release());
    static_cast<void>(gpu_direct_.release());
    return;
  }
  close();
}

std::unique_ptr<storage::File> OpenFile::open_again(int flags, std::uint32_t mode,
                                                    std::int64_t& error) {
  storage::Operation open;
  open.kind = storage::Kind::open;
  open.path = path_.c_str();
  open.flags = flags;
  open.mode = mode;
  error = Lanes::Use(*lanes_)->execute(open);
  return std::move(open.opened);
}

// The kernel opens a directory for reading, and refuses each read. Other storages refuse to open
// it.
bool OpenFile::is_directory() {
  if (!local() || (flags_ & O_ACCMODE) != O_RDONLY) return false;
  storage::Operation operation;
  operation.kind = storage::Kind::file_status;
  return control(operation) == 0 && S_ISDIR(operation.status.mode);
}

int OpenFile::descriptor() const {
  return static_cast<const storage::PosixFile&>(*buffered_).fd;
}

bool OpenFile::begin_use() {
  if ((uses_.fetch_add(1, std::memory_order_acquire) & closing) == 0) return true;
  end_use();
  return false;
}

void OpenFile::end_use() {
  if (uses_.fetch_sub(1, std::memory_order_release) == closing + 1) uses_.notify_all();
}

std::int64_t OpenFile::close() {
  if ((uses_.fetch_or(closing, std::memory_order_acq_rel) & closing) != 0) return 0;
  for (;;) {
    const std::uint64_t uses = uses_.load(std::memory_order_acquire);
    if (uses == closing) break;
    uses_.wait(uses, std::memory_order_acquire);
  }
  std::int64_t error = 0;
  close_files(error);
  return error;
}

void OpenFile::close_files(std::int64_t& error) {
  if (probe_ >= 0) ::close(probe_);
  gpu_direct_.reset();
  for (std::unique_ptr<storage::File>* file : {&direct_, &buffered_}) {
    if (*file == nullptr) continue;
    storage::Operation close;
    close.kind = storage::Kind::close;
    close.file = file->release();
    const std::int64_t result = Lanes::Use(*lanes_)->execute(close);
    if (result < 0) error = result;
  }
}

storage::File* OpenFile::direct() {
  if (!local()) return nullptr;
  if (always_direct()) return buffered_.get();
  if (direct_refused_.load(std::memory_order_relaxed)) return nullptr;
  std::call_once(direct_once_, [this] {
    // Reading only: writes through two openings of one file would not take turns.
    if ((flags_ & O_ACCMODE) == O_WRONLY) return;
    std::int64_t error = 0;
    direct_ = open_again(O_RDONLY | O_DIRECT, 0, error);
  });
  return direct_.get();
}

const cuda::GpuDirectFile* OpenFile::gpu_direct(Gpus& gpus) {
  if (gpu_direct_refused_.load(std::memory_order_relaxed)) return nullptr;
  std::call_once(gpu_direct_once_, [&] { gpu_direct_ = make_gpu_direct(gpus); });
  return gpu_direct_.get();
}

std::unique_ptr<const cuda::GpuDirectFile> OpenFile::make_gpu_direct(Gpus& gpus) {
  const auto* file = static_cast<const storage::PosixFile*>(direct());
  if (file == nullptr || file->direct_fd < 0) {
    why_no_gpu_direct_ = "no direct I/O to this file";
    return nullptr;
  }
  std::shared_ptr<const cuda::GpuDirectDriver> driver = gpus.direct_driver(why_no_gpu_direct_);
  if (driver == nullptr) return nullptr;
  try {
    return std::make_unique<const cuda::GpuDirectFile>(std::move(driver), file->direct_fd);
  } catch (const Error& error) {
    why_no_gpu_direct_ = error.reason();
    return nullptr;
  }
}

int OpenFile::probe() {
  std::call_once(probe_once_, [this] {
    if (local() && (flags_ & O_ACCMODE) != O_WRONLY)
      probe_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  });
  return probe_;
}

std::optional<std::uint64_t> OpenFile::resident_bytes(std::uint64_t offset, std::uint64_t bytes) {
  const int fd = probe();
  if (fd < 0) return std::nullopt;
  return bulk::resident_bytes(fd, offset, bytes);
}

std::int64_t OpenFile::control(storage::Operation& operation) {
  operation.file = buffered_.get();
  return Lanes::Use(*lanes_)->execute(operation);
}

}  // namespace ferry::bulk
