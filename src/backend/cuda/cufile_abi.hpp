// The parts of cuFile's interface that Ferry uses, declared again: it builds without cufile.h and
// loads the library at run time. tests/cuda/cufile_abi.cpp compares them with that header.
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace ferry::cuda::cufile {

struct CuFileError {
  int code;  // 0, or one of the numbers below
  int cuda_result;
};

using Handle = void*;

// What describes a handle.
struct FileDescription {
  int type;
  union {
    int fd;
    void* other;
  } file;
  const void* operations;
};
inline constexpr int opaque_fd = 1;  // FileDescription::type

struct Properties {
  unsigned major_version;  // of the kernel module nvidia-fs; 0.0: not loaded
  unsigned minor_version;
  std::size_t poll_threshold_bytes;
  std::size_t direct_io_bytes_max;
  unsigned status_flags;
  unsigned control_flags;
  unsigned feature_flags;
  // Unused fields, and room for later versions.
  std::byte rest[252];
};

// Bits of status_flags: what cuFile transfers without host memory.
inline constexpr unsigned serves_lustre = 1U << 0;
inline constexpr unsigned serves_nfs = 1U << 2;
inline constexpr unsigned serves_gpfs = 1U << 3;
inline constexpr unsigned serves_nvme = 1U << 4;
inline constexpr unsigned serves_nvme_of = 1U << 5;
inline constexpr unsigned serves_scsi = 1U << 6;
inline constexpr unsigned serves_scaleflux = 1U << 7;
inline constexpr unsigned serves_nvmesh = 1U << 8;
inline constexpr unsigned serves_beegfs = 1U << 9;
inline constexpr unsigned serves_nvme_p2p = 1U << 11;  // before feature_flags had it
// A bit of feature_flags: the kernel's own PCI P2PDMA, without nvidia-fs.
inline constexpr unsigned has_p2p = 1U << 4;

// Codes. Transfers return them negated, and -1 for an error in errno.
inline constexpr int base_code = 5000;
inline constexpr int not_initialized = 5001;
inline constexpr int io_not_supported = 5008;
inline constexpr int pointer_invalid = 5012;  // from here ...
inline constexpr int mapping_invalid = 5017;  // ... to here: this memory cannot be used
inline constexpr int already_open = 5026;
inline constexpr int pinning_failed = 5036;
inline constexpr int no_memory = 5043;
inline constexpr int io_error = 5044;

// X(name, result, parameters...)
#define FERRY_CUFILE_FUNCTIONS(X)                                  \
  X(cuFileDriverOpen, CuFileError)                                 \
  X(cuFileDriverClose, CuFileError)                                \
  X(cuFileDriverGetProperties, CuFileError, Properties*)           \
  X(cuFileHandleRegister, CuFileError, Handle*, FileDescription*)  \
  X(cuFileHandleDeregister, void, Handle)                          \
  X(cuFileRead, ssize_t, Handle, void*, std::size_t, off_t, off_t) \
  X(cuFileWrite, ssize_t, Handle, const void*, std::size_t, off_t, off_t)

}  // namespace ferry::cuda::cufile
