#include "devices/cuda/gpudirect.hpp"

#include <cstddef>
#include <cstdlib>

#include <dlfcn.h>

namespace ferry::cuda {
namespace {

// As in cufile.h of cuFile 1.15.
struct CuFileError {
  int error;
  int cuda_error;
};
struct CuFileProperties {
  unsigned major_version;  // of the nvidia-fs kernel module; 0.0: it is not loaded
  unsigned minor_version;
  std::size_t poll_threshold_bytes;
  std::size_t direct_io_bytes_max;
  unsigned status_flags;
  unsigned control_flags;
  // What follows here is not looked at; room for it, and for what later versions add.
  std::byte rest[256];
};
constexpr unsigned nvme_p2p_flag = 1U << 11;  // the kernel's own PCI P2PDMA, without nvidia-fs

std::string version_text(const CuFileProperties& properties) {
  return std::to_string(properties.major_version) + "." + std::to_string(properties.minor_version);
}

}  // namespace

GpuDirect probe_gpudirect(const std::string& file_name) {
  // It would leave a cufile.log in the working directory.
  setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0);
  void* library = ::dlopen(file_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {false, file_name + " cannot be loaded"};
  const auto open = reinterpret_cast<CuFileError (*)()>(::dlsym(library, "cuFileDriverOpen"));
  const auto close = reinterpret_cast<CuFileError (*)()>(::dlsym(library, "cuFileDriverClose"));
  const auto get = reinterpret_cast<CuFileError (*)(CuFileProperties*)>(
      ::dlsym(library, "cuFileDriverGetProperties"));
  if (open == nullptr || close == nullptr || get == nullptr) {
    return {false, file_name + " has not the functions of cuFile"};
  }
  if (const CuFileError result = open(); result.error != 0) {
    return {false, "cuFileDriverOpen failed with error " + std::to_string(result.error)};
  }
  CuFileProperties properties{};
  const CuFileError result = get(&properties);
  close();
  if (result.error != 0) {
    return {false, "cuFileDriverGetProperties failed with error " + std::to_string(result.error)};
  }
  if (properties.major_version != 0 || properties.minor_version != 0) {
    return {true, "cuFile works with nvidia-fs " + version_text(properties)};
  }
  if ((properties.status_flags & nvme_p2p_flag) != 0) {
    return {true, "cuFile works with the kernel's PCI P2PDMA"};
  }
  return {false,
          "cuFile runs in compatibility mode only: the kernel module nvidia-fs is not loaded"};
}

}  // namespace ferry::cuda
