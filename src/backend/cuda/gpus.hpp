// The GPUs whose memory transfers read and write.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/gpudirect.hpp"
#include "backend/cuda/resources.hpp"

namespace ferry::cuda {

// Thread-safe. Keeps the primary context of every GPU that it has met, and cuFile's driver once
// that was asked for.
class Gpus {
 public:
  // The GPU whose memory this is; null for memory of the host, which the process may touch itself,
  // pinned or not. Throws ferry::Error: ENOTSUP for memory of a context that is not the GPU's
  // primary one, EIO when the driver cannot tell.
  std::shared_ptr<const PrimaryContext> owner_of(const void* memory);

  // Null and the reason where GPUDirect Storage does not work; what the first call found holds.
  std::shared_ptr<const GpuDirectDriver> direct_driver(std::string& why_not);

 private:
  std::mutex mutex_;  // guards known_
  std::map<int, std::shared_ptr<const PrimaryContext>> known_;

  std::mutex direct_mutex_;  // guards what follows; held while cuFile's driver opens
  bool asked_ = false;
  std::string why_not_;
  std::shared_ptr<const GpuDirectDriver> direct_;  // gone before the contexts
};

}  // namespace ferry::cuda
