// The GPUs whose memory transfers read and write.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "devices/cuda/resources.hpp"

namespace ferry::bulk {

// What tasks between files and GPU memory have, unless somebody pins it: each is a copy of its own,
// which costs the driver some microseconds however small it is.
inline constexpr std::uint64_t gpu_task_bytes = 1 << 20;

// Thread-safe. Keeps the primary context of every GPU that it has met.
class Gpus {
 public:
  // The GPU whose memory this is; null for memory of the host, which the process may touch itself,
  // pinned or not. Throws ferry::Error: ENOTSUP for memory of a context that is not the GPU's
  // primary one, EIO when the driver cannot tell.
  std::shared_ptr<const cuda::PrimaryContext> owner_of(const void* memory);

 private:
  std::mutex mutex_;  // guards known_
  std::map<int, std::shared_ptr<const cuda::PrimaryContext>> known_;
};

}  // namespace ferry::bulk
