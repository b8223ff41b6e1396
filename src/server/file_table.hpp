// The open files of one server, named by handles that a device may get wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/storage.hpp"

namespace ferry::server {

// Thread-safe. A handle holds the index of a slot and the slot's generation, so that one kept after
// close() is refused instead of naming the next file. Free slots are used by turns, so that a
// handle comes again only after as many openings as there are handles, 2^31, with few files open,
// and after 2^31 divided by the number of slots (rounded up to a power of two) when all but one are
// in use.
class FileTable {
 public:
  // `generation`: of all slots at first, from 1 up. For tests.
  explicit FileTable(std::uint32_t files_max, std::uint32_t generation = 1);
  // Closes what a dead loop held to the end. Nobody may use the table any more.
  ~FileTable();
  FileTable(const FileTable&) = delete;
  FileTable& operator=(const FileTable&) = delete;

  // Promises a slot to an open that is about to begin, so that one that finds the table full does
  // not create or truncate anything. False: the table is full. Each promise is taken up by
  // insert_reserved() or given back.
  bool reserve();
  void give_back();
  // Takes the file in, into a slot that was reserved. Returns its handle, from 1 up. `path`: what
  // it was opened by.
  std::int32_t insert_reserved(std::unique_ptr<storage::File> file, std::string path = {});
  // Both in one step: the handle, or -ENFILE, which leaves `file` alone.
  std::int32_t insert(std::unique_ptr<storage::File>& file);

  // The file, protected from close() until release(); null for a handle that names none.
  storage::File* acquire(std::int32_t handle);
  void release(std::int32_t handle);
  // What the file was opened by; empty for a handle that names none.
  std::string path_of(std::int32_t handle);

  // Refuses the handle from now on. False: it named no open file.
  bool begin_close(std::int32_t handle);
  // Whether every acquire() of a file under close has been released.
  bool unused(std::int32_t handle) const;
  // Takes the file out, after begin_close() and once unused.
  storage::File* finish_close(std::int32_t handle);

  // Says that some user will never release what it holds; close() must not wait for it.
  void hold_for_ever() { held_for_ever_.store(true, std::memory_order_release); }
  bool held_for_ever() const { return held_for_ever_.load(std::memory_order_acquire); }

  // The handles of all files that are open.
  std::vector<std::int32_t> open_handles() const;

 private:
  // Bits of Slot::word: generation (31) | open (1) | users (32). One word, so that acquire() checks
  // and takes hold in one step.
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
  const unsigned index_bits_;       // of a handle; the generation has the others
  std::mutex mutex_;                // guards free_ and reserved_
  std::deque<std::uint32_t> free_;  // the one that has been free longest comes first
  std::atomic<bool> held_for_ever_{false};
  std::uint32_t reserved_ = 0;  // of those in free_, promised to opens under way
};

}  // namespace ferry::server
