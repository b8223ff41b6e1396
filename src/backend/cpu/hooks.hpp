// How a thread of the `cpu` device waits, using the operating system.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include <ferry/device/platform.hpp>

#include "base/futex.hpp"
#include "base/process_barrier.hpp"

namespace ferry::cpu {

inline device::HostHooks host_hooks() {
  device::HostHooks hooks;
  hooks.park = [](const std::uint32_t* word, std::uint32_t value, std::uint64_t timeout_ns) {
    futex_wait(word, value, timeout_ns);
  };
  hooks.wake = [](const std::uint32_t* word) { futex_wake_all(word); };
  hooks.yield = [] { std::this_thread::yield(); };
  hooks.now_ns = [] {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  };
  hooks.barrier_everywhere = has_process_barrier() ? process_barrier : nullptr;
  return hooks;
}

}  // namespace ferry::cpu
