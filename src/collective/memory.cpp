#include "collective/memory.hpp"

#include <algorithm>
#include <array>

#include <ferry/byte_order.hpp>

#include "backend/cuda/gpus.hpp"

namespace ferry::collective {
namespace {

// For elements in several pieces: assembled here, in the processor's cache.
constexpr std::int64_t step_bytes_max = 4096;

}  // namespace

bool is_gpu_memory(const void* memory) {
  return cuda::owner_of(cuda::Driver::in_use(), memory).kind == cuda::MemoryKind::device;
}

bool Memory::has_whole_elements() const {
  const auto extents = map_.extents();
  return map_.is_dense() || std::all_of(extents.begin(), extents.end(), [&](const Extent& extent) {
           return extent.bytes % swapped_bytes_ == 0;
         });
}

void Memory::pack_swapped(std::int64_t stream, std::int64_t bytes, std::byte* to) const {
  const auto element = static_cast<std::size_t>(swapped_bytes_);
  // Part of a stream may begin and end inside an element.
  for (; bytes > 0 && stream % swapped_bytes_ != 0; ++stream, --bytes)
    *to++ = *mirrored(stream);
  std::int64_t whole = bytes - bytes % swapped_bytes_;
  for (std::int64_t at = whole; at < bytes; ++at)
    to[at] = *mirrored(stream + at);
  if (has_whole_elements()) {
    for_each(stream, whole, [&](const std::byte* piece, std::int64_t length) {
      copy_swapped(to, piece, static_cast<std::size_t>(length), element);
      to += length;
    });
    return;
  }
  while (whole > 0) {
    const std::int64_t step = std::min(whole, step_bytes_max);
    std::byte* end = to;
    for_each(stream, step, [&](const std::byte* piece, std::int64_t length) {
      std::memcpy(end, piece, static_cast<std::size_t>(length));
      end += length;
    });
    swap_bytes(to, static_cast<std::size_t>(step), element);
    stream += step;
    whole -= step;
    to = end;
  }
}

void Memory::unpack_swapped(std::int64_t stream, std::int64_t bytes, const std::byte* from) const {
  const auto element = static_cast<std::size_t>(swapped_bytes_);
  for (; bytes > 0 && stream % swapped_bytes_ != 0; ++stream, --bytes)
    *mirrored(stream) = *from++;
  std::int64_t whole = bytes - bytes % swapped_bytes_;
  for (std::int64_t at = whole; at < bytes; ++at)
    *mirrored(stream + at) = from[at];
  if (has_whole_elements()) {
    for_each(stream, whole, [&](std::byte* piece, std::int64_t length) {
      copy_swapped(piece, from, static_cast<std::size_t>(length), element);
      from += length;
    });
    return;
  }
  std::array<std::byte, step_bytes_max> buffer;
  while (whole > 0) {
    const std::int64_t step = std::min(whole, step_bytes_max);
    copy_swapped(buffer.data(), from, static_cast<std::size_t>(step), element);
    const std::byte* next = buffer.data();
    for_each(stream, step, [&](std::byte* piece, std::int64_t length) {
      std::memcpy(piece, next, static_cast<std::size_t>(length));
      next += length;
    });
    stream += step;
    whole -= step;
    from += step;
  }
}

}  // namespace ferry::collective
