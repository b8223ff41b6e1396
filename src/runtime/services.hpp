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

// The server's loops as executors, without reserved cores: each has its own group, `first_group` +
// its index, and keeps serving while it waits.
class LoopServices {
 public:
  LoopServices(const device::Context& context, std::uint32_t first_group);

  // On the thread of `loop`.
  std::int64_t execute(std::uint32_t loop, const device::Request& request, server::Pump& pump);

 private:
  device::Context context_;  // the device's, but for how it waits
  std::vector<device::Caller<device::ThreadGroup>> executors_;  // one of each loop
};

// Reserved cores of the device: one thread for each of Geometry.services, with the groups from
// `first_group` up.
class ServiceThreads {
 public:
  // Thread i runs on the i-th of `cpus`, or on all if there are fewer than threads. `context` must
  // outlive this.
  ServiceThreads(const device::Context& context, std::uint32_t first_group, const CpuSet& cpus);
  // Stops the threads and waits for them: their pending requests need the server's answers first.
  ~ServiceThreads();
  ServiceThreads(const ServiceThreads&) = delete;
  ServiceThreads& operator=(const ServiceThreads&) = delete;

  // From now on, new calls end with -ESHUTDOWN.
  void stop();

 private:
  void start(std::uint32_t first_group, const CpuSet& cpus);
  void end();

  const device::Context& context_;
  std::vector<std::thread> threads_;
};

}  // namespace ferry
