// Whether GPUDirect Storage, NVIDIA's way from disks to GPU memory past the host's memory, works
// here.
#pragma once

#include <string>

namespace ferry::cuda {

struct GpuDirect {
  bool works = false;
  std::string why;  // one line, either way
};

// Asks cuFile, in this library: opens its driver, looks at what that can do, and closes it. cuFile
// also runs where it copies through the host's memory itself (compatibility mode); that is no
// GPUDirect. Loads the library for the rest of the process.
GpuDirect probe_gpudirect(const std::string& file_name = "libcufile.so.0");

}  // namespace ferry::cuda
