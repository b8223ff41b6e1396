#include "bulk/slab_pool.hpp"

#include <sys/mman.h>

#include "base/staging.hpp"

namespace ferry::bulk {
namespace {

constexpr std::size_t slabs_kept_max = 128;

}  // namespace

SlabPool::~SlabPool() {
  for (std::byte* memory : kept_)
    unmap_huge(memory, slab_bytes);
}

std::shared_ptr<std::byte> SlabPool::take() {
  std::byte* memory = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) {
      memory = kept_.back();
      kept_.pop_back();
    }
  }
  if (memory == nullptr) memory = map_huge(slab_bytes);
  if (memory == nullptr) return nullptr;
  return {memory, [pool = weak_from_this()](std::byte* used) {
            if (const std::shared_ptr<SlabPool> here = pool.lock()) {
              here->give_back(used);
            } else {
              unmap_huge(used, slab_bytes);
            }
          }};
}

std::uint64_t SlabPool::kept_bytes() {
  const std::lock_guard lock(mutex_);
  return kept_.size() * slab_bytes;
}

void SlabPool::give_back(std::byte* memory) {
  // In a child of fork() another thread may hold the lock for ever.
  if (made_here_) {
    madvise(memory, slab_bytes, MADV_FREE);
    const std::lock_guard lock(mutex_);
    if (kept_.size() < slabs_kept_max) {
      kept_.push_back(memory);
      return;
    }
  }
  unmap_huge(memory, slab_bytes);
}

}  // namespace ferry::bulk
