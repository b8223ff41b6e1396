// GPUDirect Storage: cuFile, where it really moves data between disk and GPU memory past host
// memory. Its compatibility mode copies through host memory, slower than Ferry does itself, and is
// not used.
//
// $FERRY_GPUDIRECT: `off` disables it; `on` always asks cuFile and uses it for every file it
// accepts; by default it serves the file systems that cuFile reports, if the kernel module
// nvidia-fs is loaded. $FERRY_CUFILE_LIBRARY names a library to load instead of libcufile.so.0, for
// example a mock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/cufile_abi.hpp"
#include "backend/cuda/resources.hpp"
#include "base/direction.hpp"

namespace ferry::cuda {

namespace cufile {
// The functions, with their names in cufile.h.
struct CuFileFunctions {
#define FERRY_DECLARE(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  FERRY_CUFILE_FUNCTIONS(FERRY_DECLARE)
#undef FERRY_DECLARE
};
}  // namespace cufile

// cuFile with its driver, open as long as this object lives. The library stays loaded. Thread-safe.
class GpuDirectDriver : public cufile::CuFileFunctions {
 public:
  // The one of this process; null and the reason if there is none, if it only has compatibility
  // mode, and in a child of a process that asked before it forked. The first caller opens it, which
  // is slow and creates cuFile's log file; the last holder closes it.
  static std::shared_ptr<const GpuDirectDriver> shared(std::string& why_not);

  // From a library of this name. Throws ferry::Error (ENOTSUP).
  explicit GpuDirectDriver(const std::string& file_name);
  ~GpuDirectDriver();
  GpuDirectDriver(const GpuDirectDriver&) = delete;
  GpuDirectDriver& operator=(const GpuDirectDriver&) = delete;

  // The layer below: "nvidia-fs 2.24" or "the kernel's PCI P2PDMA".
  const std::string& beneath() const { return beneath_; }
  // Whether it supports file systems of this type, from statfs(2).
  bool serves(long file_system_type) const;
  // False once the CUDA driver has ended, before the process does: then call nothing any more.
  static bool usable();

 private:
  std::string beneath_;
  unsigned local_flags_ = 0;
  unsigned status_flags_ = 0;
  bool opened_here_ = false;
};

// A file that cuFile has registered. Thread-safe.
class GpuDirectFile {
 public:
  // The descriptor needs O_DIRECT and must be closed after this. Throws ferry::Error (ENOTSUP).
  GpuDirectFile(std::shared_ptr<const GpuDirectDriver> driver, int fd);
  ~GpuDirectFile();
  GpuDirectFile(const GpuDirectFile&) = delete;
  GpuDirectFile& operator=(const GpuDirectFile&) = delete;

  const GpuDirectDriver& driver() const { return *driver_; }

  enum class Refusal : std::uint8_t {
    none,
    memory,  // of this memory only
    file,    // of this file, now and later
  };
  struct Outcome {
    std::int64_t result = 0;  // bytes, possibly fewer than requested, or a negative errno
    Refusal refusal = Refusal::none;
  };
  // Between the file and GPU memory; blocks. Reads may have any bounds: cuFile reads the
  // surrounding blocks into its own GPU memory. Writes must be whole blocks of 4096 bytes;
  // otherwise cuFile would read the surroundings and write them back over others' changes.
  Outcome transfer(const PrimaryContext& gpu, Direction direction, void* memory,
                   std::uint64_t bytes, std::uint64_t offset) const;

 private:
  const std::shared_ptr<const GpuDirectDriver> driver_;
  cufile::Handle handle_ = nullptr;
};

}  // namespace ferry::cuda
