#include "runtime/services.hpp"

#include <chrono>

namespace ferry {
namespace {

// For the call that this thread executes. Device code's hooks carry no state.
thread_local server::Pump* current_pump = nullptr;

}  // namespace

LoopServices::LoopServices(const device::Context& context, std::uint32_t first_group)
    : context_(context) {
  // Only this loop can bring about what it waits for while it spins.
  context_.wait.spin_ns = 0;
  context_.hooks.park = [](const std::uint32_t* word, std::uint32_t value,
                           std::uint64_t timeout_ns) {
    current_pump->pump(word, value, std::chrono::nanoseconds(timeout_ns));
  };
  context_.hooks.yield = [] { current_pump->pump(nullptr, 0, std::chrono::nanoseconds(0)); };
  const device::Geometry& geometry = context_.arena.layout.geometry;
  for (std::uint32_t loop = 0; loop < geometry.loops; ++loop) {
    // Ring i is one of those that loop i polls.
    executors_.push_back({{}, device::Requester(context_, first_group + loop, loop)});
  }
}

std::int64_t LoopServices::execute(std::uint32_t loop, const device::Request& request,
                                   server::Pump& pump) {
  current_pump = &pump;
  return device::serve_cached(executors_[loop], request);
}

ServiceThreads::ServiceThreads(const device::Context& context, std::uint32_t first_group,
                               const CpuSet& cpus)
    : context_(context) {
  try {
    start(first_group, cpus);
  } catch (...) {
    end();
    throw;
  }
}

void ServiceThreads::start(std::uint32_t first_group, const CpuSet& cpus) {
  const std::uint32_t count = context_.arena.layout.geometry.services;
  for (std::uint32_t index = 0; index < count; ++index) {
    const CpuSet mine = count <= cpus.size() ? CpuSet{cpus[index]} : cpus;
    threads_.emplace_back([&context = context_, index, group = first_group + index, mine] {
      name_this_thread("ferry-service");
      run_this_thread_on(mine);
      device::ServiceLoop(context, device::ThreadGroup{}, index, group).run();
    });
  }
}

ServiceThreads::~ServiceThreads() {
  end();
}

void ServiceThreads::end() {
  stop();
  for (std::thread& thread : threads_)
    thread.join();
}

void ServiceThreads::stop() {
  for (std::uint32_t index = 0; index < threads_.size(); ++index)
    device::stop_service(context_, index);
}

}  // namespace ferry
