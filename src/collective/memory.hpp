// User memory as the stream of a type map, optionally byte-swapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collective/extents.hpp"

namespace ferry::collective {

inline constexpr std::int64_t element_bytes_max = 16;

// Whether the host must not touch it. Throws ferry::Error (EIO) if the driver cannot tell.
bool is_gpu_memory(const void* memory);

class Memory {
 public:
  // `map` must outlive it. Memory to write from is not changed. For elements larger than a byte,
  // pack() and unpack() swap their bytes, and the stream begins with a whole element.
  Memory(const void* base, const TypeMap& map, std::int64_t swapped_bytes = 1)
      : base_(static_cast<std::byte*>(const_cast<void*>(base))),
        map_(map),
        swapped_bytes_(swapped_bytes) {}

  bool converts() const { return swapped_bytes_ > 1; }
  std::int64_t swapped_bytes() const { return swapped_bytes_; }
  // The stream from `stream` on is contiguous for `bytes`, as in the file.
  bool together(std::int64_t stream, std::int64_t bytes) const {
    return !converts() && lies_together(stream, bytes);
  }
  // The same, as in memory.
  bool lies_together(std::int64_t stream, std::int64_t bytes) const {
    if (map_.is_dense()) return true;
    return bytes > 0 && Cursor(map_, 0, stream).next(bytes).bytes == bytes;
  }
  std::byte* base() const { return base_; }
  const TypeMap& map() const { return map_; }
  std::byte* at(std::int64_t stream) const { return base_ + map_.position_of(stream); }

  void pack(std::int64_t stream, std::int64_t bytes, std::byte* to) const {
    if (converts()) return pack_swapped(stream, bytes, to);
    for_each(stream, bytes, [&](std::byte* piece, std::int64_t length) {
      std::memcpy(to, piece, static_cast<std::size_t>(length));
      to += length;
    });
  }
  void unpack(std::int64_t stream, std::int64_t bytes, const std::byte* from) const {
    if (converts()) return unpack_swapped(stream, bytes, from);
    for_each(stream, bytes, [&](std::byte* piece, std::int64_t length) {
      std::memcpy(piece, from, static_cast<std::size_t>(length));
      from += length;
    });
  }

  // Calls `use(address, bytes)` for each piece, as in memory.
  template <class Use>
  void for_each(std::int64_t stream, std::int64_t bytes, Use&& use) const {
    if (bytes == 0) return;
    Cursor cursor(map_, 0, stream);
    while (bytes > 0) {
      const Extent piece = cursor.next(bytes);
      use(base_ + piece.offset, piece.bytes);
      bytes -= piece.bytes;
    }
  }

 private:
  void pack_swapped(std::int64_t stream, std::int64_t bytes, std::byte* to) const;
  void unpack_swapped(std::int64_t stream, std::int64_t bytes, const std::byte* from) const;
  // The memory address of the file's byte number `stream`.
  std::byte* mirrored(std::int64_t stream) const { return at(stream ^ (swapped_bytes_ - 1)); }
  // Every piece consists of whole elements.
  bool has_whole_elements() const;

  std::byte* base_;
  const TypeMap& map_;
  std::int64_t swapped_bytes_;
};

}  // namespace ferry::collective
