// How device threads of the tests wait: like real ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include <ferry/device/control.hpp>
#include <ferry/device/requester.hpp>

#include "support/programs.hpp"

namespace ferry::test {

// A ticket of a ring that has room.
inline std::uint64_t claim(const device::RequestRing& ring, std::uint32_t count = 1) {
  std::uint64_t ticket = 0;
  if (!ring.try_claim(count, ticket)) throw std::runtime_error("the ring is full");
  return ticket;
}

inline device::Request request_of(device::Opcode opcode, std::int32_t file = 0,
                                  std::uint64_t buffer = 0, std::uint64_t length = 0) {
  device::Request request{};
  request.opcode = opcode;
  request.file = file;
  request.buffer = buffer;
  request.length = length;
  return request;
}

// Zeroed memory with a control block at its start and `heap_bytes` behind it, and its context, for
// the host and for device programs.
class TestArena {
 public:
  TestArena(device::Geometry geometry, std::uint64_t heap_bytes)
      : context_(std::make_unique<SharedArray<device::Context>>(1)) {
    geometry.arena_bytes = device::lay_out(geometry).heap + heap_bytes;
    memory_ = std::make_unique<SharedArray<unsigned char>>(geometry.arena_bytes);
    device::Context made;
    made.arena.base = memory_->data();
    made.arena.local = memory_->data();
    made.arena.layout = device::lay_out(geometry);
    made.hooks = device_hooks();
    made.wait.spin_ns = 0;
    context() = made;
  }

  device::Context& context() const { return (*context_)[0]; }
  const device::ArenaView& view() const { return context().arena; }
  unsigned char* heap() const { return memory_->data() + view().layout.heap; }
  std::uint64_t heap_bytes() const {
    return view().layout.geometry.arena_bytes - view().layout.heap;
  }

 private:
  std::unique_ptr<SharedArray<unsigned char>> memory_;
  std::unique_ptr<SharedArray<device::Context>> context_;
};

}  // namespace ferry::test
