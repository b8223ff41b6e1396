// Groups: who makes a call together.
//
// A call takes a group: one thread, or (on CUDA) a warp tile or a block. One lane, the leader, does
// the queue work; every lane gets the same result. Code below this header only uses these members:
//
//   lane()            index of this lane, 0 is the leader
//   size()            lanes in the group
//   sync()            barrier with memory ordering among the lanes
//   broadcast(value)  the leader's value, for every lane
//
// and, for calls in which each lane has a range of its own (FileCalls::pread_each), at most 64
// lanes with
//
//   ballot(predicate)     one bit for each lane, lane 0's the lowest
//   shuffle(value, from)  the value of lane `from`, for every lane
#pragma once

#include <ferry/device/platform.hpp>

namespace ferry::device {

// A group of one thread: the usual case on the `cpu` device.
struct ThreadGroup {
  FERRY_DEVICE static constexpr std::uint32_t lane() { return 0; }
  FERRY_DEVICE static constexpr std::uint32_t size() { return 1; }
  FERRY_DEVICE static void sync() {}
  template <class T>
  FERRY_DEVICE static T broadcast(T value) {
    return value;
  }
  template <class T>
  FERRY_DEVICE static T shuffle(T value, std::uint32_t /*from*/) {
    return value;
  }
  FERRY_DEVICE static std::uint64_t ballot(bool predicate) { return predicate ? 1 : 0; }
};

}  // namespace ferry::device
