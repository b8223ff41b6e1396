// The open files of one server, named by handles that a device may get wrong.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/storage.hpp"

namespace ferry::server {

// Thread-safe. A handle holds the index of a slot and the slot's generation, so that a stale one is
// refused instead of naming the next file. Free slots are used in turn, so a handle repeats only
// after as many openings as there are handles, 2^31, with few files open, and after 2^31 divided by
// the number of slots (rounded up to a power of two) with all but one in use.
class FileTable {
 public:
  // `generation`: initial one of all slots, from 1 up. For tests.
  explicit FileTable(std::uint32_t files_max, std::uint32_t generation = 1);
  // Closes files that a dead loop held to the end. The table must not be used any more.
  ~FileTable();
  FileTable(const FileTable&) = delete;
  FileTable& operator=(const FileTable&) = delete;

  // Reserves a slot for an open about to begin, so that an open with a full table does not create
  // or truncate anything. Returns false if it is full. Each reservation ends in insert_reserved()
  // or is returned.
  bool reserve();
  void give_back();
  // Puts the file into a reserved slot. Returns its handle, from 1 up. `path`: the name it was
  // opened by.
  std::int32_t insert_reserved(std::unique_ptr<storage::File> file, std::string path = {});
  // Both in one step: returns the handle, or -ENFILE, which leaves `file` alone.
  std::int32_t insert(std::unique_ptr<storage::File>& file);

  // The file, protected from close() until release(); null for an invalid handle.
  storage::File* acquire(std::int32_t handle);
  void release(std::int32_t handle);
  // The name the file was opened by; empty for an invalid handle.
  std::string path_of(std::int32_t handle);

  // Refuses the handle from now on. Returns false if it named no open file.
  bool begin_close(std::int32_t handle);
  // Whether all acquire()s of a closing file were released.
  bool unused(std::int32_t handle) const;
  // Removes the file, after begin_close() and once unused.
  storage::File* finish_close(std::int32_t handle);

  // Records that a user will never release its hold; close() must not wait for it.
  void hold_for_ever() { held_for_ever_.store(true, std::memory_order_release); }
  bool held_for_ever() const { return held_for_ever_.load(std::memory_order_acquire); }

  // The handles of all open files.
  std::vector<std::int32_t> open_handles() const;

 private:
  // Bits of Slot::word: generation (31) | open (1) | users (32). One word, so that acquire() checks
  // and holds in one step.
  static constexpr std::uint64_t users_mask = 0xffffffff;
  static constexpr std::uint64_t open_bit = std::uint64_t{1} << 32;
  static constexpr unsigned generation_shift = 33;

  struct Slot {
    std::atomic<std::uint64_t> word{0};
    storage::File* file = nullptr;  // this and the path are written while neither open nor in use
    std::string path;
  };

  std::uint32_t index_of(std::int32_t handle) const;
  std::uint64_t generation_of(std::int32_t handle) const;
  std::int32_t handle_of(std::uint64_t word, std::uint32_t index) const;
  const Slot* find(std::int32_t handle) const;
  Slot* find(std::int32_t handle) {
    return const_cast<Slot*>(static_cast<const FileTable*>(this)->find(handle));
  }

  std::vector<Slot> slots_;
  const unsigned index_bits_;  // of a handle; the generation has the others
  std::atomic<bool> held_for_ever_{false};
  std::mutex mutex_;  // guards what follows
  // A ring, because a close must not need memory. The longest-free one comes first.
  std::vector<std::uint32_t> free_;
  std::size_t free_first_ = 0;
  std::size_t free_count_;
  std::size_t reserved_ = 0;  // of these, for opens in flight
};

}  // namespace ferry::server
