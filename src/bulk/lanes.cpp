#include "bulk/lanes.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>

#include "base/staging.hpp"
#include "storage/router.hpp"

namespace ferry::bulk {
namespace {

// The initial buffer for a file; most need no more.
constexpr std::uint64_t guess_bytes = 64 << 10;

std::shared_ptr<std::byte> make_memory(std::uint64_t bytes) {
  std::byte* memory = map_huge(bytes);
  if (memory == nullptr) return nullptr;
  return {memory, [bytes](std::byte* mapped) { unmap_huge(mapped, bytes); }};
}

}  // namespace

SlabPool::~SlabPool() {
  for (std::size_t i = 0; i < kept_count_; ++i)
    unmap_huge(kept_[i], slab_bytes);
}

std::shared_ptr<std::byte> SlabPool::take() {
  std::byte* memory = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (kept_count_ > 0) memory = kept_[--kept_count_];
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
  return kept_count_ * slab_bytes;
}

void SlabPool::give_back(std::byte* memory) {
  // In a child of fork() another thread may hold the lock for ever.
  if (made_here_) {
    madvise(memory, slab_bytes, MADV_FREE);
    const std::lock_guard lock(mutex_);
    if (kept_count_ < kept_max) {
      kept_[kept_count_++] = memory;
      return;
    }
  }
  unmap_huge(memory, slab_bytes);
}

PathError error_on_path(storage::Storage& storage, std::int64_t error, const std::string& path) {
  const auto number = static_cast<int>(-error);
  return {number, path, storage::reason_of(storage, number, path)};
}

std::byte* Lane::room(std::uint64_t bytes) {
  if (slab_.bytes - slab_.used < bytes) {
    slab_ = Slab{slabs_.take(), SlabPool::slab_bytes, 0};
    if (slab_.memory == nullptr) slab_ = Slab{};
  }
  return slab_.memory == nullptr ? nullptr : slab_.memory.get() + slab_.used;
}

std::int64_t Lane::read_whole(storage::SyncFile& file, Contents& contents) {
  std::byte* to = room(guess_bytes);
  if (to == nullptr) return -ENOMEM;
  std::uint64_t capacity = guess_bytes;
  std::shared_ptr<std::byte> memory = slab_.memory;
  std::uint64_t got = 0;
  for (;;) {
    const std::int64_t more = file.read(to + got, capacity - got, got);
    if (more < 0) return more;
    got += static_cast<std::uint64_t>(more);
    if (got < capacity) break;
    // A larger file gets its own memory: its current size plus one byte, to see its end; doubled if
    // it grows.
    storage::Status status;
    if (const std::int64_t error = file.status(status); error < 0) return error;
    capacity = std::max(status.size_bytes + 1, 2 * capacity);
    std::shared_ptr<std::byte> larger = make_memory(capacity);
    if (larger == nullptr) return -ENOMEM;
    std::copy_n(to, got, larger.get());
    memory = std::move(larger);
    to = memory.get();
  }
  if (memory == slab_.memory) {
    keep_in_slab(to, got, contents);
    return 0;
  }
  contents = {std::move(memory), to, got};
  return 0;
}

void Lane::keep_in_slab(std::byte* data, std::uint64_t bytes, Contents& contents) {
  slab_.used += (bytes + 63) / 64 * 64;
  contents = {slab_.memory, data, bytes};
}

Contents Lane::read_file(const std::string& path) {
  Contents contents;
  std::byte* to = room(guess_bytes);
  const std::int64_t got =
      to == nullptr ? -ENOMEM : queue().read_file(path.c_str(), {to, guess_bytes});
  if (got == -ENOTSUP || got == -EFBIG) return open_and_read_file(path);
  if (got < 0) {
    contents.error_number = static_cast<int>(-got);
  } else {
    keep_in_slab(to, static_cast<std::uint64_t>(got), contents);
  }
  return contents;
}

Contents Lane::open_and_read_file(const std::string& path) {
  Contents contents;
  storage::SyncFile file(*this);
  std::int64_t error = file.open(path, O_RDONLY);
  if (error == 0) error = read_whole(file, contents);
  if (error < 0) contents.error_number = static_cast<int>(-error);
  return contents;
}

std::unique_ptr<Lane> Lanes::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Lane> lane = std::move(idle_.back());
      idle_.pop_back();
      return lane;
    }
  }
  return std::make_unique<Lane>(*storage_, *slabs_);
}

void Lanes::put_back(std::unique_ptr<Lane> lane) {
  const std::lock_guard lock(mutex_);
  try {
    idle_.push_back(std::move(lane));
  } catch (const std::bad_alloc&) {  // the next user makes one
  }
}

}  // namespace ferry::bulk
