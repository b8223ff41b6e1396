// Copies between a program's buffer and device memory, shared by the lanes of a group.
#pragma once

#include <cstdint>

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <emmintrin.h>
#define FERRY_HAS_STREAMING_STORES 1
#endif

#include <ferry/device/group.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device {

namespace detail {

// The unit that one lane moves; may be in memory of any type.
struct [[gnu::may_alias]] alignas(16) Word16 {
  std::uint64_t low;
  std::uint64_t high;
};
struct [[gnu::may_alias]] alignas(4) Word4 {
  std::uint32_t value;
};

// `count` aligned words. Several loads are in flight before the first store, so that a lane waits
// for memory (or for the bus) once for all of them.
template <class Word, class Group>
FERRY_DEVICE void copy_words(Group group, unsigned char* to, const unsigned char* from,
                             std::uint64_t count) {
  constexpr std::uint32_t at_once = 4;
  auto* target = reinterpret_cast<Word*>(to);
  const auto* source = reinterpret_cast<const Word*>(from);
  const std::uint64_t step = group.size();
  std::uint64_t at = group.lane();
  for (; at + (at_once - 1) * step < count; at += at_once * step) {
    Word words[at_once];
    for (std::uint32_t i = 0; i < at_once; ++i)
      words[i] = source[at + i * step];
    for (std::uint32_t i = 0; i < at_once; ++i)
      target[at + i * step] = words[i];
  }
  FERRY_NO_UNROLL
  for (; at < count; at += step)
    target[at] = source[at];
}

// Words of the largest common alignment, and single bytes before and after.
template <class Group>
FERRY_DEVICE void copy_shared_out(Group group, unsigned char* to, const unsigned char* from,
                                  std::uint64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const std::uintptr_t skew = address ^ reinterpret_cast<std::uintptr_t>(from);
  const std::uint64_t word = skew % 16 == 0 ? 16 : skew % 4 == 0 ? 4 : 1;
  std::uint64_t head = (word - address % word) % word;
  if (head > bytes) head = bytes;
  const std::uint64_t count = (bytes - head) / word;
  const std::uint64_t tail = head + count * word;
  if (word == 16) copy_words<Word16>(group, to + head, from + head, count);
  if (word == 4) copy_words<Word4>(group, to + head, from + head, count);
  FERRY_NO_UNROLL
  for (std::uint64_t at = group.lane(); at < head; at += group.size())
    to[at] = from[at];
  FERRY_NO_UNROLL
  for (std::uint64_t at = (word == 1 ? 0 : tail) + group.lane(); at < bytes; at += group.size())
    to[at] = from[at];
}

// The lanes of any group, and those of a whole tile.
struct SomeLanes {
  std::uint32_t index;
  std::uint32_t count;
  FERRY_DEVICE std::uint32_t lane() const { return index; }
  FERRY_DEVICE std::uint32_t size() const { return count; }
};
template <std::uint32_t lanes_>
struct AllLanes {
  std::uint32_t index;
  FERRY_DEVICE std::uint32_t lane() const { return index; }
  FERRY_DEVICE static constexpr std::uint32_t size() { return lanes_; }
};

FERRY_DEVICE_ONCE inline void copy_by_some(SomeLanes lanes, unsigned char* to,
                                           const unsigned char* from, std::uint64_t bytes) {
  copy_shared_out(lanes, to, from, bytes);
}

}  // namespace detail

// Copies `bytes` bytes with one thread; the ranges must not overlap. A GPU's compiler turns a
// memcpy of unknown alignment into single bytes.
FERRY_DEVICE inline void copy_alone(void* target, const void* source, std::uint64_t bytes) {
#if defined(__CUDA_ARCH__)
  detail::copy_shared_out(ThreadGroup{}, static_cast<unsigned char*>(target),
                          static_cast<const unsigned char*>(source), bytes);
#else
  __builtin_memcpy(target, source, bytes);
#endif
}

// The same with all lanes of a group, which pass the same arguments; on return the copy is complete
// and visible to every lane.
template <class Group>
FERRY_DEVICE void copy_bytes(Group group, void* target, const void* source, std::uint64_t bytes) {
  if (!has_several_lanes(group)) return copy_alone(target, source, bytes);
  auto* to = static_cast<unsigned char*>(target);
  const auto* from = static_cast<const unsigned char*>(source);
  group.sync();
  if constexpr (requires { Group::lanes_max; }) {
    // The compiler knows the number of lanes of a whole tile; the other tile is rare.
    if (group.size() == Group::lanes_max) {
      detail::copy_shared_out(detail::AllLanes<Group::lanes_max>{group.lane()}, to, from, bytes);
    } else {
      detail::copy_by_some(detail::SomeLanes{group.lane(), group.size()}, to, from, bytes);
    }
  } else {
    detail::copy_shared_out(group, to, from, bytes);
  }
  group.sync();
}

// Stores `bytes` bytes past the core's caches, for memory not used again soon: neither reads what
// it overwrites nor evicts the program's data (Murty, Sudarsan, section 4.3).
FERRY_DEVICE inline void copy_streaming(unsigned char* to, const unsigned char* from,
                                        std::uint64_t bytes) {
#if defined(FERRY_HAS_STREAMING_STORES)
  constexpr std::uint64_t line = 64;
  const std::uint64_t skew = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (bytes < skew + line) {
    __builtin_memcpy(to, from, bytes);
    return;
  }
  __builtin_memcpy(to, from, skew);
  std::uint64_t at = skew;
  for (; at + line <= bytes; at += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  __builtin_memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // a release does not order streaming stores
#else
  copy_alone(to, from, bytes);
#endif
}

// The sizes of calls from which copies into and out of the cache are streaming. Into it: the caller
// does not use the page itself. Out of it: the program is about to read its buffer, so only where
// the buffer does not stay in the core's caches anyway. Which sizes pay off differs between
// processors; a runtime tries it (runtime/copy_trials.hpp).
struct StreamingCopies {
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::uint64_t into_bytes_min = 64 << 10;
  std::uint64_t out_bytes_min = 16 << 20;
};

FERRY_DEVICE inline void copy_in(unsigned char* page, const unsigned char* from,
                                 std::uint64_t bytes, bool streaming) {
  if (streaming) return copy_streaming(page, from, bytes);
  copy_alone(page, from, bytes);
}
FERRY_DEVICE inline void copy_out(unsigned char* to, const unsigned char* page, std::uint64_t bytes,
                                  bool streaming) {
  if (streaming) return copy_streaming(to, page, bytes);
  copy_alone(to, page, bytes);
}

}  // namespace ferry::device
