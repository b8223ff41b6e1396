// Memory for small files, reused from batch to batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bulk/forks.hpp"

namespace ferry::bulk {

// Keeps up to 256 MiB of returned memory for the next batch; the kernel may reclaim its pages.
// Thread-safe; memory may outlive the pool.
class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  static constexpr std::uint64_t slab_bytes = 2 << 20;
  ~SlabPool();
  // Null: out of memory.
  std::shared_ptr<std::byte> take();
  std::uint64_t kept_bytes();

 private:
  void give_back(std::byte* memory);

  const MadeHere made_here_{};
  std::mutex mutex_;  // guards kept_
  std::vector<std::byte*> kept_;
};

}  // namespace ferry::bulk
