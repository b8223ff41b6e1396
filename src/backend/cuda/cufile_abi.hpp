// What Ferry uses of cuFile's interface, declared anew: it builds without cufile.h and loads the
// library at run time. tests/cuda/cufile_abi.cpp compares all of it with that header.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace ferry::cuda::cufile {

struct Error {
  int code;  // 0, or one of the numbers below
  int cuda_result;
};

using Handle = void*;

// What a handle is made of.
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
  unsigned major_version;  // of the nvidia-fs kernel module; 0.0: it is not loaded
  unsigned minor_version;
  std::size_t poll_threshold_bytes;
  std::size_t direct_io_bytes_max;
  unsigned status_flags;
  unsigned control_flags;
  unsigned feature_flags;
  // What follows here is not looked at; room for it, and for what later versions add.
  std::byte rest[252];
};

// Bits of status_flags: what cuFile serves past the host's memory.
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

// Codes, and negated what transfers return, of which -1 leaves the reason in errno.
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
  X(cuFileDriverOpen, Error)                                       \
  X(cuFileDriverClose, Error)                                      \
  X(cuFileDriverGetProperties, Error, Properties*)                 \
  X(cuFileHandleRegister, Error, Handle*, FileDescription*)        \
  X(cuFileHandleDeregister, void, Handle)                          \
  X(cuFileRead, ssize_t, Handle, void*, std::size_t, off_t, off_t) \
  X(cuFileWrite, ssize_t, Handle, const void*, std::size_t, off_t, off_t)

}  // namespace ferry::cuda::cufile
