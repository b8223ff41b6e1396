// The GPUs whose memory transfers read and write.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/gpudirect.hpp"
#include "backend/cuda/resources.hpp"

namespace ferry::cuda {

// Thread-safe. Keeps the primary context of every GPU seen, and cuFile's driver once requested.
class Gpus {
 public:
  // The GPU that owns this memory; null for host memory, pinned or not. Throws ferry::Error:
  // ENOTSUP for memory outside the GPU's primary context, EIO if the driver cannot tell.
  std::shared_ptr<const PrimaryContext> owner_of(const void* memory);

  // Null and the reason if GPUDirect Storage does not work; the first answer stays.
  std::shared_ptr<const GpuDirectDriver> direct_driver(std::string& why_not);

 private:
  std::mutex mutex_;  // guards known_
  std::map<int, std::shared_ptr<const PrimaryContext>> known_;

  std::mutex direct_mutex_;  // guards the following; held while cuFile's driver opens
  bool asked_ = false;
  std::string why_not_;
  std::shared_ptr<const GpuDirectDriver> direct_;  // destroyed before the contexts
};

}  // namespace ferry::cuda
