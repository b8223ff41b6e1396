// What a device thread of the tests waits with: the real thing.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>

#include <ferry/device/control.hpp>
#include <ferry/device/requester.hpp>

#include "devices/cpu/hooks.hpp"

namespace ferry::test {

// A ticket of a ring that has room.
inline std::uint64_t claim(const device::RequestRing& ring, std::uint32_t count = 1) {
  std::uint64_t ticket = 0;
  if (!ring.try_claim(count, ticket)) throw std::runtime_error("the ring is full");
  return ticket;
}

// Zeroed memory with a laid-out control block at its start and `heap_bytes` behind it.
class TestArena {
 public:
  TestArena(device::Geometry geometry, std::uint64_t heap_bytes) {
    geometry.arena_bytes = device::lay_out(geometry).heap + heap_bytes;
    memory_.reset(static_cast<unsigned char*>(
        std::aligned_alloc(4096, (geometry.arena_bytes + 4095) / 4096 * 4096)));
    if (!memory_) throw std::bad_alloc();
    __builtin_memset(memory_.get(), 0, geometry.arena_bytes);
    context_.arena.base = memory_.get();
    context_.arena.local = memory_.get();
    context_.arena.layout = device::lay_out(geometry);
    context_.hooks = cpu::host_hooks();
    context_.wait.spin_ns = 0;
    context_.wait.liveness_timeout_ns = 20'000'000'000;
  }

  device::Context& context() { return context_; }
  const device::ArenaView& view() const { return context_.arena; }
  unsigned char* heap() const { return memory_.get() + view().layout.heap; }
  std::uint64_t heap_bytes() const {
    return view().layout.geometry.arena_bytes - view().layout.heap;
  }

 private:
  struct Free {
    void operator()(unsigned char* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<unsigned char, Free> memory_;
  device::Context context_;
};

}  // namespace ferry::test
