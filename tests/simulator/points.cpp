// What -fsanitize=thread puts before the accesses of the code under test, without that sanitizer's
// runtime: each atomic operation is a point, and each other access counts as an eighth of one.
//
// In some runs atomic stores weaker than seq_cst are seen by other threads with a delay, in order,
// as from the store buffer of a processor (TSO, as of x86); read-modify-writes, seq_cst operations
// and fences, waits and the barrier of the process end the delay.
#include <bit>
#include <cstdint>
#include <cstring>

#include "simulator/scheduler.hpp"

// Their names and types are the compiler's.
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-declarations"

namespace ferry::simulator {
namespace {

constexpr std::int64_t atomic_weight = 8;
constexpr std::int64_t plain_weight = 1;
constexpr int seq_cst = __ATOMIC_SEQ_CST;

void before_atomic(bool ends_delay) {
  if (self == nullptr) return;
  if (!ends_delay && !self->stores.empty() && scheduler->choices().one_in(16))
    scheduler->flush_store(*self);
  scheduler->step(atomic_weight);
  if (ends_delay) scheduler->flush_stores(*self);
}

void before_plain(const void* address) {
  if (self == nullptr) return;
  if (!self->stores.empty()) {
    for (const DelayedStore& store : self->stores) {
      const auto* at = static_cast<const char*>(store.address);
      if (at + 16 <= address || static_cast<const char*>(address) + 16 <= at) continue;
      scheduler->flush_stores(*self);
      break;
    }
  }
  scheduler->step(plain_weight);
}

template <class T>
T load(const volatile T* address, int order) {
  static_cast<void>(order);
  before_atomic(false);
  if (self != nullptr) {
    for (auto store = self->stores.rbegin(); store != self->stores.rend(); ++store) {
      if (store->address != address) continue;
      T own;
      std::memcpy(&own, &store->value, sizeof own);
      return own;
    }
  }
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}

template <class T>
void store(volatile T* address, T value, int order) {
  const bool delayed = self != nullptr && order != seq_cst && scheduler->delays_store_to(address);
  before_atomic(!delayed);
  if (!delayed) {
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
    return;
  }
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, &value, sizeof value < sizeof bytes ? sizeof value : sizeof bytes);
  self->stores.push_back({const_cast<T*>(address), bytes, sizeof value, scheduler->now()});
  if (scheduler->choices().one_in(4)) scheduler->change_soon();
}

template <class T, class Change>
T change(volatile T* address, Change make) {
  before_atomic(true);
  T seen = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(address, &seen, make(seen), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST))
    continue;
  return seen;
}

template <class T>
int compare_exchange(volatile T* address, T* expected, T desired, bool weak) {
  before_atomic(true);
  if (weak && self != nullptr && scheduler->choices().one_in(50)) return 0;  // it may fail
  return __atomic_compare_exchange_n(address, expected, desired, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)
             ? 1
             : 0;
}

}  // namespace
}  // namespace ferry::simulator

using namespace ferry::simulator;  // NOLINT(google-build-using-namespace): these have none

#define FERRY_ATOMICS(bits, T)                                                            \
  T __tsan_atomic##bits##_load(const volatile T* a, int o) {                              \
    return load<T>(a, o);                                                                 \
  }                                                                                       \
  void __tsan_atomic##bits##_store(volatile T* a, T v, int o) {                           \
    store<T>(a, v, o);                                                                    \
  }                                                                                       \
  T __tsan_atomic##bits##_exchange(volatile T* a, T v, int) {                             \
    return change<T>(a, [&](T) { return v; });                                            \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_add(volatile T* a, T v, int) {                            \
    return change<T>(a, [&](T old) { return static_cast<T>(old + v); });                  \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_sub(volatile T* a, T v, int) {                            \
    return change<T>(a, [&](T old) { return static_cast<T>(old - v); });                  \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_and(volatile T* a, T v, int) {                            \
    return change<T>(a, [&](T old) { return static_cast<T>(old & v); });                  \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_or(volatile T* a, T v, int) {                             \
    return change<T>(a, [&](T old) { return static_cast<T>(old | v); });                  \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_xor(volatile T* a, T v, int) {                            \
    return change<T>(a, [&](T old) { return static_cast<T>(old ^ v); });                  \
  }                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* a, T* e, T v, int, int) { \
    return compare_exchange<T>(a, e, v, false);                                           \
  }                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* a, T* e, T v, int, int) {   \
    return compare_exchange<T>(a, e, v, true);                                            \
  }

#define FERRY_ACCESSES(bytes)                   \
  void __tsan_read##bytes(void* a) {            \
    before_plain(a);                            \
  }                                             \
  void __tsan_write##bytes(void* a) {           \
    before_plain(a);                            \
  }                                             \
  void __tsan_unaligned_read##bytes(void* a) {  \
    before_plain(a);                            \
  }                                             \
  void __tsan_unaligned_write##bytes(void* a) { \
    before_plain(a);                            \
  }                                             \
  void __tsan_volatile_read##bytes(void* a) {   \
    before_plain(a);                            \
  }                                             \
  void __tsan_volatile_write##bytes(void* a) {  \
    before_plain(a);                            \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* a, std::size_t) {
  before_plain(a);
}
void __tsan_write_range(void* a, std::size_t) {
  before_plain(a);
}
void __tsan_atomic_thread_fence(int order) {
  if (order == seq_cst) before_atomic(true);
}
void __tsan_atomic_signal_fence(int) {}

FERRY_ACCESSES(1)
FERRY_ACCESSES(2)
FERRY_ACCESSES(4)
FERRY_ACCESSES(8)
FERRY_ACCESSES(16)

FERRY_ATOMICS(8, std::uint8_t)
FERRY_ATOMICS(16, std::uint16_t)
FERRY_ATOMICS(32, std::uint32_t)
FERRY_ATOMICS(64, std::uint64_t)

// Copies of instrumented code are not one step: another thread may see or change half of one.
void* ferry_simulated_memcpy(void* to, const void* from, std::size_t bytes) {
  if (self == nullptr || bytes < 64) return std::memcpy(to, from, bytes);
  scheduler->flush_stores(*self);
  const std::size_t half = scheduler->choices().below(bytes / 8) * 8;
  std::memcpy(to, from, half);
  scheduler->step(atomic_weight);
  std::memcpy(static_cast<char*>(to) + half, static_cast<const char*>(from) + half, bytes - half);
  return to;
}
}
