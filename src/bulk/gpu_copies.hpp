// Copies between page-locked memory of the host and GPUs, for one worker: started here, made by the
// GPU's copy engines, and looked at now and then. Nothing here waits for a GPU that works.
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
#include "base/staging.hpp"

namespace ferry::bulk {

// A copy that was started. Must stay where it is until it is reaped.
struct GpuCopy {
  int error_number = 0;  // once reaped
};

// Belongs to one thread, whose current CUDA context it sets.
class GpuCopies {
 public:
  // `slots` pieces of page-locked memory, taken from the system with the first of them.
  GpuCopies(unsigned slots, std::uint64_t slot_bytes) : slots_(slots), slot_bytes_(slot_bytes) {}
  // Nothing may be in flight.
  ~GpuCopies() = default;
  GpuCopies(const GpuCopies&) = delete;
  GpuCopies& operator=(const GpuCopies&) = delete;

  // Null: all are taken. Throws std::system_error (ENOMEM and what else the driver says).
  std::byte* take_slot(const cuda::PrimaryContext& gpu);
  void give_back(std::byte* slot) { staging_->give_back(slot); }
  // Memory that is page-locked.
  std::uint64_t pinned_bytes() const { return staging_ ? staging_->memory().size() : 0; }

  // Between a slot and memory of the GPU. 0, or an errno: then nothing is under way.
  int start(GpuCopy& copy, const cuda::PrimaryContext& gpu, bool to_gpu, void* memory,
            std::byte* slot, std::uint64_t bytes);
  // A copy that is over: nothing touches its memory any more, also where it failed. Null: none is.
  GpuCopy* reap();
  bool any_in_flight() const { return in_flight_ > 0; }

 private:
  struct Started {
    GpuCopy* copy = nullptr;
    std::unique_ptr<cuda::Event> passed;
  };
  // Of one GPU and direction: streams keep their order, so the oldest copy ends first.
  struct Direction {
    std::unique_ptr<cuda::Stream> stream;
    std::deque<Started> in_flight;
  };
  struct Channel {
    std::array<Direction, 2> directions;  // from the GPU, to it
    std::vector<std::unique_ptr<cuda::Event>> idle_events;
  };

  int enter(const cuda::PrimaryContext& gpu);

  const unsigned slots_;
  const std::uint64_t slot_bytes_;
  std::unique_ptr<Staging> staging_;
  std::optional<cuda::Registration> registration_;  // of the staging memory; gone before it
  std::map<const cuda::PrimaryContext*, Channel> channels_;
  const cuda::PrimaryContext* current_ = nullptr;
  unsigned in_flight_ = 0;
};

}  // namespace ferry::bulk
