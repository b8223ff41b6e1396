// Queues for blocking calls: a caller takes one, uses it and puts it back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <ferry/bulk.hpp>

#include "base/forks.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bulk {

// Memory for small files, reused from batch to batch. Keeps up to 256 MiB of returned memory for
// the next batch; the kernel may reclaim its pages. Thread-safe; memory may outlive the pool.
class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  static constexpr std::uint64_t slab_bytes = 2 << 20;
  ~SlabPool();
  // Null: out of memory.
  std::shared_ptr<std::byte> take();
  std::uint64_t kept_bytes();

 private:
  void give_back(std::byte* memory);

  static constexpr std::size_t kept_max = 128;
  const MadeHere made_here_{};
  std::mutex mutex_;  // guards what follows
  std::array<std::byte*, kept_max> kept_{};
  std::size_t kept_count_ = 0;
};

// Memory for many small files, one after another.
struct Slab {
  std::shared_ptr<std::byte> memory;
  std::uint64_t bytes = 0;
  std::uint64_t used = 0;
};

// One thread's blocking access to a storage.
class Lane : public storage::SyncCalls {
 public:
  Lane(storage::Storage& storage, SlabPool& slabs)
      : SyncCalls(storage, {.depth = 4, .may_block = true}), slabs_(slabs) {}
  // Opens, reads and closes a file, into the slab if it fits.
  Contents read_file(const std::string& path);

 private:
  Contents open_and_read_file(const std::string& path);
  std::int64_t read_whole(storage::SyncFile& file, Contents& contents);
  void keep_in_slab(std::byte* data, std::uint64_t bytes, Contents& contents);
  std::byte* room(std::uint64_t bytes);

  SlabPool& slabs_;
  Slab slab_;
};

// The exception for a call on `path` that returned the negative errno `error`. Says what to do
// where the storage knows: settings of a URI that it has not, a server that cannot be reached.
PathError error_on_path(storage::Storage& storage, std::int64_t error, const std::string& path);

// A storage and its lanes. Thread-safe.
class Lanes {
 public:
  explicit Lanes(std::unique_ptr<storage::Storage> storage) : storage_(std::move(storage)) {}

  class Use {
   public:
    explicit Use(Lanes& lanes) : lanes_(lanes), lane_(lanes.take()) {}
    ~Use() { lanes_.put_back(std::move(lane_)); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Lane* operator->() const { return lane_.get(); }
    Lane& operator*() const { return *lane_; }

   private:
    Lanes& lanes_;
    std::unique_ptr<Lane> lane_;
  };

  storage::Storage& storage() { return *storage_; }
  SlabPool& slabs() { return *slabs_; }

 private:
  std::unique_ptr<Lane> take();
  void put_back(std::unique_ptr<Lane> lane);

  const std::unique_ptr<storage::Storage> storage_;
  const std::shared_ptr<SlabPool> slabs_ = std::make_shared<SlabPool>();
  std::mutex mutex_;  // guards idle_
  std::vector<std::unique_ptr<Lane>> idle_;
};

}  // namespace ferry::bulk
