// Placement `service` on the `cpu` device: the threads that execute cached calls for others.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include <ferry/device/caller.hpp>
#include <ferry/device/service.hpp>

#include "base/cpus.hpp"
#include "server/loop.hpp"

namespace ferry {

// The part of the server's loops, where no cores are set aside: each executes with a group of its
// own, `first_group` + its index, and waits by keeping the loop serving.
class LoopServices {
 public:
  LoopServices(const device::Context& context, std::uint32_t first_group);

  // On the thread of `loop`.
  std::int64_t execute(std::uint32_t loop, const device::Request& request, server::Pump& pump);

 private:
  device::Context context_;  // the device's, but for how it waits
  std::vector<device::Caller<device::ThreadGroup>> executors_;  // one of each loop
};

// Cores of the device that are set aside: one thread for each of Geometry.services, with the groups
// from `first_group` up.
class ServiceThreads {
 public:
  // Thread i runs on the i-th of `cpus`, or on all where there are fewer than threads. `context`
  // must outlive this.
  ServiceThreads(const device::Context& context, std::uint32_t first_group, const CpuSet& cpus);
  // Stops, and waits until the threads have ended: not before the server has answered what they
  // wait for.
  ~ServiceThreads();
  ServiceThreads(const ServiceThreads&) = delete;
  ServiceThreads& operator=(const ServiceThreads&) = delete;

  // Calls that are not under way yet end with -ESHUTDOWN from now on.
  void stop();

 private:
  const device::Context& context_;
  std::vector<std::thread> threads_;
};

}  // namespace ferry
