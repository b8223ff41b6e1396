// Groups: the threads that make a call together.
//
// A call takes a group: one thread, or (on CUDA) a warp tile or a block. One lane, the leader, does
// the queue work; every lane gets the same result. Code below this header only uses these members:
//
//   lane()            index of this lane, 0 is the leader
//   size()            lanes in the group; a kind of groups that all have the same number of lanes,
//                     but for the last ones of their blocks, says it in lanes_max
//   sync()            barrier with memory ordering among the lanes
//   broadcast(value)  the leader's value, for every lane
//
// and, for calls in which each lane has a range of its own (FileCalls::pread_each), at most 64
// lanes with
//
//   ballot(predicate)     one bit for each lane, lane 0's the lowest
//   shuffle(value, from)  the value of lane `from`, for every lane
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::device {

// Blocks are cut into tiles one by one, so that no tile spans two blocks. If a block is no multiple
// of the tile, its last tile is smaller.
FERRY_DEVICE constexpr std::uint32_t tiles_in_block(std::uint32_t threads_per_block,
                                                    std::uint32_t lanes) {
  return (threads_per_block + lanes - 1) / lanes;
}
// The grid's tile that contains thread `thread` of block `block`.
FERRY_DEVICE constexpr std::uint32_t tile_in_grid(std::uint32_t block,
                                                  std::uint32_t threads_per_block,
                                                  std::uint32_t thread, std::uint32_t lanes) {
  return block * tiles_in_block(threads_per_block, lanes) + thread / lanes;
}
// How many lanes that tile has.
FERRY_DEVICE constexpr std::uint32_t lanes_in_tile(std::uint32_t threads_per_block,
                                                   std::uint32_t thread, std::uint32_t lanes) {
  const std::uint32_t left = threads_per_block - thread / lanes * lanes;
  return left < lanes ? left : lanes;
}

// Whether several lanes make this group's calls. For tiles that is known at compile time; a single
// lane at the end of a block then acts like several.
template <class Group>
FERRY_DEVICE constexpr bool has_several_lanes(const Group& group) {
  if constexpr (requires { Group::lanes_max; }) {
    (void)group;
    return Group::lanes_max > 1;
  } else {
    return group.size() > 1;
  }
}

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
