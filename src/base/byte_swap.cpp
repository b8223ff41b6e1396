#include "base/byte_swap.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <ferry/byte_order.hpp>
#include <ferry/error.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ferry {
namespace {

std::uint16_t reversed(std::uint16_t value) {
  return __builtin_bswap16(value);
}
std::uint32_t reversed(std::uint32_t value) {
  return __builtin_bswap32(value);
}
std::uint64_t reversed(std::uint64_t value) {
  return __builtin_bswap64(value);
}

struct Wide {
  std::uint64_t first;
  std::uint64_t second;
};
Wide reversed(Wide value) {
  return {reversed(value.second), reversed(value.first)};
}

template <class Element>
void swap_elements(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(Element)) {
    Element value;
    std::memcpy(&value, from + at, sizeof value);
    value = reversed(value);
    std::memcpy(to + at, &value, sizeof value);
  }
}

void swap_plainly(std::byte* to, const std::byte* from, std::size_t bytes,
                  std::size_t element_bytes) {
  switch (element_bytes) {
    case 2:
      return swap_elements<std::uint16_t>(to, from, bytes);
    case 4:
      return swap_elements<std::uint32_t>(to, from, bytes);
    case 8:
      return swap_elements<std::uint64_t>(to, from, bytes);
    default:
      return swap_elements<Wide>(to, from, bytes);
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
constexpr std::size_t lane_bytes = 16;  // a shuffle moves bytes within one

// Which byte of a lane each byte comes from.
struct Shuffle {
  explicit Shuffle(std::size_t element_bytes) {
    for (std::size_t at = 0; at < lane_bytes; ++at)
      from[at] = static_cast<std::uint8_t>(at ^ (element_bytes - 1));
  }
  alignas(lane_bytes) std::array<std::uint8_t, lane_bytes> from{};
};
#endif

#if defined(__x86_64__)
__attribute__((target("ssse3"))) void swap_by_ssse3(std::byte* to, const std::byte* from,
                                                    std::size_t bytes, std::size_t element_bytes) {
  const Shuffle shuffle(element_bytes);
  const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(shuffle.from.data()));
  std::size_t at = 0;
  for (; at + lane_bytes <= bytes; at += lane_bytes) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), _mm_shuffle_epi8(value, places));
  }
  swap_plainly(to + at, from + at, bytes - at, element_bytes);
}

__attribute__((target("avx2"))) void swap_by_avx2(std::byte* to, const std::byte* from,
                                                  std::size_t bytes, std::size_t element_bytes) {
  const Shuffle shuffle(element_bytes);
  const __m256i places = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(shuffle.from.data())));
  constexpr std::size_t vector_bytes = sizeof(__m256i);
  std::size_t at = 0;
  for (; at + 4 * vector_bytes <= bytes; at += 4 * vector_bytes) {
    const auto* source = reinterpret_cast<const __m256i*>(from + at);
    auto* target = reinterpret_cast<__m256i*>(to + at);
    const __m256i a = _mm256_loadu_si256(source);
    const __m256i b = _mm256_loadu_si256(source + 1);
    const __m256i c = _mm256_loadu_si256(source + 2);
    const __m256i d = _mm256_loadu_si256(source + 3);
    _mm256_storeu_si256(target, _mm256_shuffle_epi8(a, places));
    _mm256_storeu_si256(target + 1, _mm256_shuffle_epi8(b, places));
    _mm256_storeu_si256(target + 2, _mm256_shuffle_epi8(c, places));
    _mm256_storeu_si256(target + 3, _mm256_shuffle_epi8(d, places));
  }
  swap_by_ssse3(to + at, from + at, bytes - at, element_bytes);
}
#elif defined(__aarch64__)
void swap_by_neon(std::byte* to, const std::byte* from, std::size_t bytes,
                  std::size_t element_bytes) {
  const uint8x16_t places = vld1q_u8(Shuffle(element_bytes).from.data());
  const auto* source = reinterpret_cast<const std::uint8_t*>(from);
  auto* target = reinterpret_cast<std::uint8_t*>(to);
  std::size_t at = 0;
  for (; at + 4 * lane_bytes <= bytes; at += 4 * lane_bytes) {
    const uint8x16x4_t values = vld1q_u8_x4(source + at);
    // Not in the call, which is a macro of clang's: it takes no braces.
    const uint8x16x4_t swapped = {
        {vqtbl1q_u8(values.val[0], places), vqtbl1q_u8(values.val[1], places),
         vqtbl1q_u8(values.val[2], places), vqtbl1q_u8(values.val[3], places)}};
    vst1q_u8_x4(target + at, swapped);
  }
  swap_plainly(to + at, from + at, bytes - at, element_bytes);
}
#endif

// The number of methods in `all`, from plain to fastest, that this processor supports.
std::size_t usable() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("ssse3") == 0) return 1;
  return __builtin_cpu_supports("avx2") != 0 ? 3 : 2;
#elif defined(__aarch64__)
  return 2;  // every such processor has NEON
#else
  return 1;
#endif
}

constexpr NamedByteSwap all[] = {
    {"plain", swap_plainly},
#if defined(__x86_64__)
    {"ssse3", swap_by_ssse3},
    {"avx2", swap_by_avx2},
#elif defined(__aarch64__)
    {"neon", swap_by_neon},
#endif
};

}  // namespace

std::span<const NamedByteSwap> byte_swaps() {
  static const std::size_t count = usable();
  return {all, count};
}

void swap_bytes(void* data, std::size_t bytes, std::size_t element_bytes) {
  copy_swapped(data, data, bytes, element_bytes);
}

void copy_swapped(void* to, const void* from, std::size_t bytes, std::size_t element_bytes) {
  if (!std::has_single_bit(element_bytes) || element_bytes > 16 || bytes % element_bytes != 0) {
    throw Error(EINVAL, "swapping " + std::to_string(bytes) + " bytes in elements of " +
                            std::to_string(element_bytes));
  }
  if (bytes == 0) return;
  if (element_bytes == 1) {
    if (to != from) std::memcpy(to, from, bytes);
    return;
  }
  byte_swaps().back().swap(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                           element_bytes);
}

}  // namespace ferry
