// User memory, seen as the stream of a type map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collective/cursor.hpp"

namespace ferry::collective {

class Memory {
 public:
  // `map` must outlive it. What is only written from is never changed.
  Memory(const void* base, const TypeMap& map)
      : base_(static_cast<std::byte*>(const_cast<void*>(base))), map_(map) {}

  // The stream from `stream` on lies in one piece of `bytes`.
  bool together(std::int64_t stream, std::int64_t bytes) const {
    if (map_.is_dense()) return true;
    return bytes > 0 && Cursor(map_, 0, stream).next(bytes).bytes == bytes;
  }
  std::byte* base() const { return base_; }
  const TypeMap& map() const { return map_; }
  std::byte* at(std::int64_t stream) const { return base_ + map_.position_of(stream); }

  void pack(std::int64_t stream, std::int64_t bytes, std::byte* to) const {
    for_each(stream, bytes, [&](std::byte* piece, std::int64_t length) {
      std::memcpy(to, piece, static_cast<std::size_t>(length));
      to += length;
    });
  }
  void unpack(std::int64_t stream, std::int64_t bytes, const std::byte* from) const {
    for_each(stream, bytes, [&](std::byte* piece, std::int64_t length) {
      std::memcpy(piece, from, static_cast<std::size_t>(length));
      from += length;
    });
  }

  // Calls `use(address, bytes)` for each piece.
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
  std::byte* base_;
  const TypeMap& map_;
};

}  // namespace ferry::collective
