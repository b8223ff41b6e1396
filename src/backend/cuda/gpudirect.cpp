#include "backend/cuda/gpudirect.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/magic.hpp"

namespace ferry::cuda {
namespace {

constexpr unsigned serves_local = cufile::serves_nvme | cufile::serves_nvme_of |
                                  cufile::serves_scsi | cufile::serves_scaleflux |
                                  cufile::serves_nvmesh | cufile::serves_nvme_p2p;

std::string_view setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

bool wanted_everywhere() {
  return setting("FERRY_GPUDIRECT") == "on";
}

bool nvidia_fs_is_loaded() {
  return ::access("/proc/driver/nvidia-fs", F_OK) == 0;
}

template <class Function>
void load(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

std::shared_ptr<const GpuDirectDriver> GpuDirectDriver::shared(std::string& why_not) {
  // Never destroyed: late transfers may outlive main().
  struct State {
    std::atomic<pid_t> asked_in{0};
    std::mutex mutex;
    std::weak_ptr<const GpuDirectDriver> open;
  };
  static auto* const state = new State;
  if (setting("FERRY_GPUDIRECT") == "off") {
    why_not = "FERRY_GPUDIRECT=off";
    return nullptr;
  }
  if (!wanted_everywhere() && !nvidia_fs_is_loaded()) {
    why_not =
        "the kernel module nvidia-fs is not loaded; FERRY_GPUDIRECT=on asks cuFile all the same";
    return nullptr;
  }
  // Before taking the lock, which the parent may have held when it forked.
  pid_t asked_in = 0;
  if (!state->asked_in.compare_exchange_strong(asked_in, getpid()) && asked_in != getpid()) {
    why_not = "cuFile belongs to the parent of this process";
    return nullptr;
  }
  const std::lock_guard lock(state->mutex);
  std::shared_ptr<const GpuDirectDriver> driver = state->open.lock();
  if (driver != nullptr) return driver;
  const std::string_view library = setting("FERRY_CUFILE_LIBRARY");
  try {
    driver = std::make_shared<const GpuDirectDriver>(library.empty() ? std::string("libcufile.so.0")
                                                                     : std::string(library));
  } catch (const Error& error) {
    why_not = error.reason();
  }
  state->open = driver;
  return driver;
}

GpuDirectDriver::GpuDirectDriver(const std::string& file_name) {
  void* library = ::dlopen(file_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ENOTSUP, file_name + " cannot be loaded");
#define FERRY_LOAD(name, result, ...) load(library, name, #name);
  FERRY_CUFILE_FUNCTIONS(FERRY_LOAD)
#undef FERRY_LOAD
  // What newer headers map the name to.
  if (::dlsym(library, "cuFileDriverClose_v2") != nullptr) {
    load(library, cuFileDriverClose, "cuFileDriverClose_v2");
  }
  bool complete = true;
#define FERRY_CHECK(name, result, ...) complete = complete && name != nullptr;
  FERRY_CUFILE_FUNCTIONS(FERRY_CHECK)
#undef FERRY_CHECK
  if (!complete) throw Error(ENOTSUP, file_name + " has not the functions of cuFile");
  const int opened = cuFileDriverOpen().code;
  if (opened != 0 && opened != cufile::already_open) {
    throw Error(ENOTSUP, "cuFileDriverOpen failed with error " + std::to_string(opened));
  }
  const auto give_up = [&](const std::string& why) {
    if (opened == 0) cuFileDriverClose();
    throw Error(ENOTSUP, why);
  };
  cufile::Properties properties{};
  if (const int error = cuFileDriverGetProperties(&properties).code; error != 0) {
    give_up("cuFileDriverGetProperties failed with error " + std::to_string(error));
  }
  if (properties.major_version != 0 || properties.minor_version != 0) {
    beneath_ = "nvidia-fs " + std::to_string(properties.major_version) + "." +
               std::to_string(properties.minor_version);
  } else if ((properties.status_flags & cufile::serves_nvme_p2p) != 0 ||
             (properties.feature_flags & cufile::has_p2p) != 0) {
    beneath_ = "the kernel's PCI P2PDMA";
    local_flags_ = serves_local;
  } else {
    give_up("cuFile runs in compatibility mode only: the kernel module nvidia-fs is not loaded");
  }
  status_flags_ = properties.status_flags;
  local_flags_ |= properties.status_flags & serves_local;
  opened_here_ = opened == 0;
}

GpuDirectDriver::~GpuDirectDriver() {
  if (opened_here_ && usable()) cuFileDriverClose();
}

bool GpuDirectDriver::usable() {
  const Driver* driver = Driver::in_use();
  int count = 0;
  // Fails when the process ends: cuFile's calls would use freed state.
  return driver == nullptr || driver->cuDeviceGetCount(&count) != Result::deinitialized;
}

bool GpuDirectDriver::serves(long file_system_type) const {
  switch (file_system_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
      return local_flags_ != 0;
    case NFS_SUPER_MAGIC:
      return (status_flags_ & cufile::serves_nfs) != 0;
    case lustre_magic:
      return (status_flags_ & cufile::serves_lustre) != 0;
    case gpfs_magic:
      return (status_flags_ & cufile::serves_gpfs) != 0;
    case beegfs_magic:
      return (status_flags_ & cufile::serves_beegfs) != 0;
    default:
      return false;
  }
}

GpuDirectFile::GpuDirectFile(std::shared_ptr<const GpuDirectDriver> driver, int fd)
    : driver_(std::move(driver)) {
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0) throw Error(ENOTSUP, "the file system cannot be determined");
  // A handle of any other file may be in compatibility mode, undetectably.
  if (!wanted_everywhere() && !driver_->serves(static_cast<long>(status.f_type))) {
    throw Error(ENOTSUP,
                "cuFile does not say that it serves this file system; FERRY_GPUDIRECT=on tries it");
  }
  cufile::FileDescription description{};
  description.type = cufile::opaque_fd;
  description.file.fd = fd;
  if (const int error = driver_->cuFileHandleRegister(&handle_, &description).code; error != 0) {
    throw Error(ENOTSUP, "cuFile refuses this file with error " + std::to_string(error));
  }
}

GpuDirectFile::~GpuDirectFile() {
  if (GpuDirectDriver::usable()) driver_->cuFileHandleDeregister(handle_);
}

GpuDirectFile::Outcome GpuDirectFile::transfer(const PrimaryContext& gpu, Direction direction,
                                               void* memory, std::uint64_t bytes,
                                               std::uint64_t offset) const {
  const auto at = static_cast<off_t>(offset);
  ssize_t result = 0;
  int error = 0;
  try {
    const CurrentContext current(gpu);
    errno = 0;
    result = direction == Direction::write ? driver_->cuFileWrite(handle_, memory, bytes, at, 0)
                                           : driver_->cuFileRead(handle_, memory, bytes, at, 0);
    error = errno;
  } catch (const Error&) {  // the slots meet and report the same error
    return {0, Refusal::memory};
  }
  if (result >= 0) return {result, Refusal::none};
  if (result < -1) error = static_cast<int>(-result);
  if (error == cufile::io_error || error == 0) error = EIO;
  if ((error >= cufile::pointer_invalid && error <= cufile::mapping_invalid) ||
      error == cufile::pinning_failed || error == cufile::no_memory) {
    return {0, Refusal::memory};
  }
  if (error > cufile::base_code || error == EINVAL || error == ENOTSUP || error == ENOSYS) {
    return {0, Refusal::file};
  }
  return {-error, Refusal::none};
}

}  // namespace ferry::cuda
