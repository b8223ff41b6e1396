// Copies between a program's buffer and device memory, shared out over the lanes of a group.
#pragma once

#include <cstdint>

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <emmintrin.h>
#define FERRY_HAS_STREAMING_STORES 1
#endif

#include <ferry/device/group.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device {

// Copies `bytes` bytes; the ranges must not overlap. Every lane of the group must call with the
// same arguments; the copy is complete and visible to every lane on return.
template <class Group>
FERRY_DEVICE void copy_bytes(Group group, void* target, const void* source, std::uint64_t bytes) {
  if (group.size() == 1) {
    __builtin_memcpy(target, source, bytes);
    return;
  }
  constexpr std::uint64_t piece_bytes = 16;
  auto* to = static_cast<unsigned char*>(target);
  const auto* from = static_cast<const unsigned char*>(source);
  group.sync();
  const std::uint64_t step = piece_bytes * group.size();
  for (std::uint64_t at = piece_bytes * group.lane(); at < bytes; at += step) {
    const std::uint64_t rest = bytes - at;
    __builtin_memcpy(to + at, from + at, rest < piece_bytes ? rest : piece_bytes);
  }
  group.sync();
}

// Stores `bytes` bytes past the core's caches, for memory that it will not touch soon: neither
// reads what it overwrites nor drives out what the program works on (paper 003, section 4.3).
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
  _mm_sfence();  // streaming stores are not ordered by the release that tells others of them
#else
  __builtin_memcpy(to, from, bytes);
#endif
}

// Sizes of a call from which its copies stream. Into the cache: the page is not the caller's to
// touch. Out of it: the program is about to read its buffer, so only what no cache would keep.
inline constexpr std::uint64_t write_streaming_bytes = 64 << 10;
inline constexpr std::uint64_t read_streaming_bytes = 4 << 20;

FERRY_DEVICE inline void copy_in(unsigned char* page, const unsigned char* from,
                                 std::uint64_t bytes, bool streaming) {
  if (streaming) return copy_streaming(page, from, bytes);
  __builtin_memcpy(page, from, bytes);
}
FERRY_DEVICE inline void copy_out(unsigned char* to, const unsigned char* page, std::uint64_t bytes,
                                  bool streaming) {
  if (streaming) return copy_streaming(to, page, bytes);
  __builtin_memcpy(to, page, bytes);
}

}  // namespace ferry::device
