// GPUDirect Storage, NVIDIA's way from disks to GPU memory past the host's memory: cuFile, where it
// really does that. It also runs where it copies through the host's memory itself (compatibility
// mode); that is no GPUDirect, and a slower form of what Ferry does without it.
//
// $FERRY_GPUDIRECT: `off`; `on` asks cuFile whatever the machine looks like, and uses it for every
// file that it takes; anything else, and nothing, where the kernel module nvidia-fs is loaded, for
// the file systems that cuFile says it serves. $FERRY_CUFILE_LIBRARY names another library in the
// place of libcufile.so.0, a mock for example.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/cufile_abi.hpp"
#include "backend/cuda/resources.hpp"

namespace ferry::cuda {

namespace cufile {
// The functions by their names in cufile.h.
struct Functions {
#define FERRY_DECLARE(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  FERRY_CUFILE_FUNCTIONS(FERRY_DECLARE)
#undef FERRY_DECLARE
};
}  // namespace cufile

// cuFile with its driver open, which it is as long as this lives. The library stays loaded until
// the process ends. Thread-safe.
class GpuDirectDriver : public cufile::Functions {
 public:
  // The one of this process; null and the reason where there is none, where it has no more than
  // compatibility mode, and in a child of a process that asked before it forked. The first to ask
  // opens it, which takes long and leaves cuFile's log file; it closes with the last who holds it.
  static std::shared_ptr<const GpuDirectDriver> shared(std::string& why_not);

  // In a library of this name. Throws ferry::Error (ENOTSUP).
  explicit GpuDirectDriver(const std::string& file_name);
  ~GpuDirectDriver();
  GpuDirectDriver(const GpuDirectDriver&) = delete;
  GpuDirectDriver& operator=(const GpuDirectDriver&) = delete;

  // What is beneath it: "nvidia-fs 2.24" or "the kernel's PCI P2PDMA".
  const std::string& beneath() const { return beneath_; }
  // Whether it says so of file systems of this type, as statfs(2) has it.
  bool serves(long file_system_type) const;
  // False once the CUDA driver has ended, before the process: then nothing may be called any more.
  static bool usable();

 private:
  std::string beneath_;
  unsigned local_flags_ = 0;
  unsigned status_flags_ = 0;
  bool opened_here_ = false;
};

// A file of which cuFile has the descriptor. Thread-safe.
class GpuDirectFile {
 public:
  // The descriptor must be one with O_DIRECT, and be closed after this. Throws ferry::Error
  // (ENOTSUP).
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
    std::int64_t result = 0;  // bytes, perhaps fewer than were asked for, or a negative errno
    Refusal refusal = Refusal::none;
  };
  // Between the file and memory of the GPU; blocks. Reads may begin and end anywhere: cuFile reads
  // the blocks around them into memory of its own on the GPU. Writes must be of whole blocks of
  // 4096 bytes, or cuFile would read what lies around them, and write that again over what others
  // have written meanwhile.
  Outcome transfer(const PrimaryContext& gpu, bool writing, void* memory, std::uint64_t bytes,
                   std::uint64_t offset) const;

 private:
  const std::shared_ptr<const GpuDirectDriver> driver_;
  cufile::Handle handle_ = nullptr;
};

}  // namespace ferry::cuda
