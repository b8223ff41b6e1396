// Who makes a call: a group, its end of a request ring, and where its transfers are executed.
#pragma once

#include <cstdint>

#include <ferry/device/group.hpp>
#include <ferry/device/placement_policy.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// Each lane of the group has one. Only the leader uses `requester` and `stream`.
template <class Group>
struct Caller {
  Group group;
  Requester requester;
  Placement placement = Placement::host;
  StreamWatch stream{};  // for the calls that `automatic` decides on

  // Runs `work` on the leader and returns its result on every lane.
  template <class Work>
  FERRY_DEVICE auto leads(Work work) {
    using Result = decltype(work());
    Result result{};
    group.sync();
    if (group.lane() == 0) result = work();
    return group.broadcast(result);
  }
};

}  // namespace ferry::device
