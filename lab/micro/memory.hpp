// Resident memory in huge pages, and copies between such: the minimal work of a cached call.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ferry::benchmarks {

class HugeMemory {
 public:
  explicit HugeMemory(std::uint64_t bytes) : mapped_(bytes + huge_page_bytes) {
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    const auto start = reinterpret_cast<std::uintptr_t>(base_);
    data_ = static_cast<char*>(base_) + (huge_page_bytes - start % huge_page_bytes);
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, bytes);
  }
  ~HugeMemory() { munmap(base_, mapped_); }
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;

  char* data() const { return data_; }

 private:
  static constexpr std::uint64_t huge_page_bytes = 2 << 20;

  std::uint64_t mapped_;
  void* base_;
  char* data_;
};

using Copy = void (*)(void* to, const void* from, std::uint64_t bytes);

inline void library_copy(void* to, const void* from, std::uint64_t bytes) {
  std::memcpy(to, from, bytes);
  asm volatile("" ::: "memory");  // the copy is not left out because nobody reads it
}

#if defined(__x86_64__)
// Past the core's caches; `bytes` is a multiple of 128, `to` of 32.
__attribute__((target("avx2"))) inline void avx2_streaming_copy(void* to, const void* from,
                                                                std::uint64_t bytes) {
  auto* target = static_cast<__m256i*>(to);
  const auto* source = static_cast<const __m256i*>(from);
  for (std::uint64_t i = 0; i < bytes / sizeof(__m256i); i += 4) {
    const __m256i a = _mm256_loadu_si256(source + i);
    const __m256i b = _mm256_loadu_si256(source + i + 1);
    const __m256i c = _mm256_loadu_si256(source + i + 2);
    const __m256i d = _mm256_loadu_si256(source + i + 3);
    _mm256_stream_si256(target + i, a);
    _mm256_stream_si256(target + i + 1, b);
    _mm256_stream_si256(target + i + 2, c);
    _mm256_stream_si256(target + i + 3, d);
  }
  _mm_sfence();
}
inline Copy streaming_copy() {
  return __builtin_cpu_supports("avx2") != 0 ? avx2_streaming_copy : library_copy;
}
#else
inline Copy streaming_copy() {
  return library_copy;
}
#endif

}  // namespace ferry::benchmarks
