// The context of a GPU's kernels for host threads that run them on the mock.
#pragma once

#include <cstdint>

#include <ferry/device.hpp>

#include "backend/cpu/hooks.hpp"

namespace ferry::test {

// The address of device memory in such a thread.
template <class T>
T* played_address(T* device, long offset_bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(device) +
                              static_cast<std::uintptr_t>(offset_bytes));
}

inline device::Context played_context(device::Context context, long offset_bytes) {
  context.arena.local = played_address(context.arena.local, offset_bytes);
  if (context.cache.base != nullptr) {
    context.cache.base = played_address(context.cache.base, offset_bytes);
    context.bypassed.entries = played_address(context.bypassed.entries, offset_bytes);
  }
  context.hooks = cpu::host_hooks();
  context.hooks.barrier_everywhere = nullptr;  // as on a GPU
  context.wait.spin_ns = 0;
  return context;
}

}  // namespace ferry::test
