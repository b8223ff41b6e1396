// What device code may assume of the processor it runs on.
//
// Everything under device/ is written once and compiled three times: as plain C++20 for the `cpu`
// device and for the I/O server, as CUDA device code, and as CUDA host code. This header holds the
// whole difference: the function annotations, the atomic references, and how a thread pauses.
// FERRY_DEVICE_CALL is for what waits or is long: CUDA's compiler inlines everything else, and
// takes many minutes for a kernel with a few file calls if these are inlined too. FERRY_DEVICE_ONCE
// is for what many of those use: a kernel has it once, and the host's compiler decides by itself.
// FERRY_DEVICE_FAST is for the way of a cached read, where every instruction counts, and keeps the
// slow ways out of it. FERRY_NO_UNROLL stands before loops that wait or are rarely passed through:
// CUDA's compiler writes out up to hundreds of their passes, and then takes minutes for what it
// wrote.
//
// Two scopes, never both on one object:
//   SystemRef   words that the device and the server both see (ring, cells, doorbells)
//   DeviceRef   words that only device threads see (tickets, file positions)
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda/atomic>
#define FERRY_DEVICE __host__ __device__
#define FERRY_DEVICE_CALL __noinline__ __host__ __device__
#if defined(__CUDA_ARCH__)
#define FERRY_DEVICE_ONCE __noinline__ __host__ __device__
#else
#define FERRY_DEVICE_ONCE __host__ __device__
#endif
#define FERRY_DEVICE_FAST __forceinline__ __host__ __device__
#if defined(__CUDA_ARCH__)
#define FERRY_NO_UNROLL _Pragma("unroll 1")
#else
#define FERRY_NO_UNROLL
#endif
#else
#include <atomic>
#define FERRY_DEVICE
#define FERRY_DEVICE_CALL [[gnu::noinline]]
#define FERRY_DEVICE_ONCE
#define FERRY_DEVICE_FAST [[gnu::always_inline]] inline
#define FERRY_NO_UNROLL
#endif

namespace ferry::device {

#if defined(__CUDACC__)

template <class T>
using SystemRef = ::cuda::atomic_ref<T, cuda::thread_scope_system>;
template <class T>
using DeviceRef = ::cuda::atomic_ref<T, cuda::thread_scope_device>;

inline constexpr auto relaxed = ::cuda::std::memory_order_relaxed;
inline constexpr auto acquire = ::cuda::std::memory_order_acquire;
inline constexpr auto release = ::cuda::std::memory_order_release;
inline constexpr auto acq_rel = ::cuda::std::memory_order_acq_rel;
inline constexpr auto seq_cst = ::cuda::std::memory_order_seq_cst;

#else

template <class T>
using SystemRef = std::atomic_ref<T>;
template <class T>
using DeviceRef = std::atomic_ref<T>;

inline constexpr auto relaxed = std::memory_order_relaxed;
inline constexpr auto acquire = std::memory_order_acquire;
inline constexpr auto release = std::memory_order_release;
inline constexpr auto acq_rel = std::memory_order_acq_rel;
inline constexpr auto seq_cst = std::memory_order_seq_cst;

#endif

// Words with different writers never share a cache line. Some processors of ARM have lines of 128
// bytes: CMake's FERRY_CACHE_LINE_BYTES is for them, and is one for library and programs.
#if !defined(FERRY_CACHE_LINE_BYTES)
#define FERRY_CACHE_LINE_BYTES 64
#endif
inline constexpr std::size_t cache_line_bytes = FERRY_CACHE_LINE_BYTES;
// What is declared with this has another name for other lines: a program that was compiled for
// those cannot be linked.
#define FERRY_QUOTED(word) #word
#define FERRY_QUOTED_VALUE(macro) FERRY_QUOTED(macro)
#define FERRY_FOR_THESE_LINES \
  [[gnu::abi_tag("cache_lines_of_" FERRY_QUOTED_VALUE(FERRY_CACHE_LINE_BYTES))]]
// Of whole lines. Layouts are pinned by their size on lines of 64 bytes.
FERRY_DEVICE constexpr std::size_t in_lines(std::size_t bytes) {
  return (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
}

// Tells the core that this thread is polling, so that a sibling hardware thread can use it.
FERRY_DEVICE inline void pause_briefly() {
#if defined(__CUDA_ARCH__)
  __nanosleep(32);
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// For bits that are not all 0.
FERRY_DEVICE inline std::uint32_t lowest_bit(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(bits)) - 1);
#else
  return static_cast<std::uint32_t>(__builtin_ctzll(bits));
#endif
}

// The operating system calls that a thread of the `cpu` device needs for waiting. Device code
// itself makes no system call; the `cpu` device fills these in. CUDA kernels have none and nap
// instead (below).
struct HostHooks {
  // Sleeps while *word == value, at most timeout_ns. May return early.
  void (*park)(const std::uint32_t* word, std::uint32_t value, std::uint64_t timeout_ns);
  // Wakes every thread that is parked on word.
  void (*wake)(const std::uint32_t* word);
  // Lets another runnable thread have this core.
  void (*yield)();
  // A monotonic clock.
  std::uint64_t (*now_ns)();
  // Makes every running thread of this process pass a full memory barrier before it returns; other
  // threads have passed one. Null if unsupported.
  void (*barrier_everywhere)();
};

// How long a waiting thread sleeps that has slept `sleeps` times: `first_ns`, and later a part of
// the time that it has waited. Many callers may wait for a storage that hangs, and leave the CPUs
// to others meanwhile.
FERRY_DEVICE constexpr std::uint64_t next_sleep_ns(std::uint64_t first_ns, std::uint64_t sleeps,
                                                   std::uint64_t longest_ns = 1'000'000'000) {
  const std::uint64_t grown = first_ns << (sleeps < 128 ? sleeps / 8 : 16);
  return grown < longest_ns ? grown : longest_ns;
}

inline constexpr unsigned gpu_nap_ns = 1000;

FERRY_DEVICE inline void park(const HostHooks& hooks, const std::uint32_t& word,
                              std::uint32_t value, std::uint64_t timeout_ns,
                              unsigned nap_ns = gpu_nap_ns) {
#if defined(__CUDA_ARCH__)
  (void)hooks, (void)word, (void)value, (void)timeout_ns;
  __nanosleep(nap_ns);
#else
  (void)nap_ns;
  hooks.park(&word, value, timeout_ns);
#endif
}
FERRY_DEVICE inline void wake(const HostHooks& hooks, const std::uint32_t& word) {
#if defined(__CUDA_ARCH__)
  (void)hooks, (void)word;  // no thread sleeps there
#else
  hooks.wake(&word);
#endif
}
FERRY_DEVICE inline void yield(const HostHooks& hooks, unsigned nap_ns = gpu_nap_ns) {
#if defined(__CUDA_ARCH__)
  (void)hooks;
  __nanosleep(nap_ns);
#else
  (void)nap_ns;
  hooks.yield();
#endif
}

}  // namespace ferry::device
