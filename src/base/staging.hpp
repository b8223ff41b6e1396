// Bounce buffers between a disk and buffers that direct I/O cannot use: slots in huge pages, which
// also make transfers of few segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ferry {

// For one thread.
class Staging {
 public:
  // Throws std::system_error (ENOMEM).
  Staging(unsigned slots, std::uint64_t slot_bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::byte* take();  // null: all are taken
  void give_back(std::byte* slot) { free_.push_back(slot); }
  std::span<std::byte> memory() const { return {base_, bytes_}; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::vector<std::byte*> free_;
};

// Zeroed memory, in huge pages if the kernel grants them, aligned to 2 MiB; null if there is none.
// Free it with unmap_huge() and the same size. `reserved`: the kernel may refuse more than it has.
std::byte* map_huge(std::uint64_t bytes, bool reserved = false);
void unmap_huge(std::byte* memory, std::uint64_t bytes);

}  // namespace ferry
