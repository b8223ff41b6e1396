// One worker's copies between page-locked host memory and GPUs. The GPU's copy engines execute
// them; the worker polls for their end and never waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/resources.hpp"
#include "base/direction.hpp"
#include "base/staging.hpp"

namespace ferry::bulk {

// A copy in flight. Must not move until it is reaped.
struct GpuCopy {
  int error_number = 0;  // once reaped
};

// For one thread, whose current CUDA context it sets.
class GpuCopies {
 public:
  // `slots` pieces of page-locked memory, allocated with the first use.
  GpuCopies(unsigned slots, std::uint64_t slot_bytes) : slots_(slots), slot_bytes_(slot_bytes) {}
  // Nothing may be in flight.
  ~GpuCopies() = default;
  GpuCopies(const GpuCopies&) = delete;
  GpuCopies& operator=(const GpuCopies&) = delete;

  // Null: all are in use. Throws std::system_error (ENOMEM and other errors of the driver).
  std::byte* take_slot(const cuda::PrimaryContext& gpu);
  void give_back(std::byte* slot) { staging_->give_back(slot); }
  // Page-locked memory.
  std::uint64_t pinned_bytes() const { return staging_ ? staging_->memory().size() : 0; }

  // Between a slot and GPU memory: into it for a read. Returns 0, or an errno without a copy in
  // flight.
  int start(GpuCopy& copy, const cuda::PrimaryContext& gpu, Direction direction, void* memory,
            std::byte* slot, std::uint64_t bytes);
  // A finished copy, also if it failed: nothing touches its memory any more. Null: there is none.
  GpuCopy* reap();
  bool any_in_flight() const { return in_flight_ > 0; }

 private:
  struct Started {
    GpuCopy* copy = nullptr;
    std::unique_ptr<cuda::Event> passed;
  };
  // For one GPU and direction: streams keep their order, so the oldest copy ends first.
  struct OneWay {
    std::unique_ptr<cuda::Stream> stream;
    std::deque<Started> in_flight;
  };
  struct Channel {
    std::array<OneWay, 2> ways;  // by Direction
    std::vector<std::unique_ptr<cuda::Event>> idle_events;
  };

  int enter(const cuda::PrimaryContext& gpu);

  const unsigned slots_;
  const std::uint64_t slot_bytes_;
  std::unique_ptr<Staging> staging_;
  std::optional<cuda::Registration> registration_;  // for the slots; destroyed before them
  std::map<const cuda::PrimaryContext*, Channel> channels_;
  const cuda::PrimaryContext* current_ = nullptr;
  unsigned in_flight_ = 0;
};

}  // namespace ferry::bulk
