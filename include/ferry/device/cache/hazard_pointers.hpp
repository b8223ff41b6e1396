// Marks: how the usual read protects a frame from reuse without a read-modify-write.
//
// A pin takes two of them on a word that other cores also change. On x86 each is a full barrier, so
// that a core cannot begin the next read while memory still answers this one; and the cache line
// moves between cores although all of them only read. A mark is a plain store to a line of the
// group's own: a hazard pointer (M. M. Michael, "Hazard Pointers: Safe Memory Reclamation for
// Lock-Free Objects", IEEE TPDS 15(6), 2004).
//
//   reader                          evicting party
//   mark := frame                   state: no pins -> taken
//   full barrier                    full barrier
//   look at state and key           look at all marks
//   copy                            marked: state: taken -> orphan; the clock comes by again
//   mark := none (release)          (acquire) not marked: it owns the frame
//
// Invariant:
//   M1  Either the reader sees `taken`, or the evicting party sees the mark, because each announces
//       first and then looks. So a frame's bytes do not change while a reader that found it right
//       copies.
//
// Where the system has barriers for all threads at once (HostHooks::barrier_everywhere), the
// evicting party pays for both sides, once for many frames, and the reader only needs a compiler
// barrier.
//
// On a GPU reads pin (View::marks is false): memory, not the core, executes its atomic operations,
// and evictions would have to look at the marks of thousands of groups.
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>

namespace ferry::device::cache {

// The mark of a group; one frame at a time.
class HazardGuard {
 public:
  FERRY_DEVICE_FAST HazardGuard(const View& view, std::uint32_t group, std::uint32_t frame)
      : word_(view.mark(group).frame) {
    if (view.barriers_everywhere) {
      word_.store(frame + 1, relaxed);
      keep_order();
    } else {
      word_.store(frame + 1, seq_cst);
    }
  }
  // Release: a party that sees the mark gone sees the copy as done.
  FERRY_DEVICE_FAST ~HazardGuard() { word_.store(0, release); }
  HazardGuard(const HazardGuard&) = delete;
  HazardGuard& operator=(const HazardGuard&) = delete;

 private:
  // Keeps the compiler from looking before announcing.
  FERRY_DEVICE_FAST static void keep_order() {
#if !defined(__CUDACC__)
    std::atomic_signal_fence(seq_cst);
#endif
  }

  DeviceRef<std::uint32_t> word_;
};

// After frames were taken and before any look at their marks.
FERRY_DEVICE inline void before_looking_at_marks(const View& view, const HostHooks& hooks) {
#if defined(__CUDA_ARCH__)
  (void)view;
  (void)hooks;
#else
  if (view.barriers_everywhere) hooks.barrier_everywhere();
#endif
}
FERRY_DEVICE inline bool is_marked(const View& view, std::uint32_t frame) {
  if (!view.marks) return false;
  for (std::uint32_t group = 0; group < view.layout.geometry.groups; ++group)
    if (DeviceRef<std::uint32_t>(view.mark(group).frame).load(seq_cst) == frame + 1) return true;
  return false;
}

}  // namespace ferry::device::cache
