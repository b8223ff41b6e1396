// Where tests' device programs make file calls: on a `cpu` device's runtime, on a mock GPU's with
// kernels on threads, and, compiled by nvcc, in kernels on a real GPU. Write a test once, for
// On<Machine, Kind>; a typed suite runs it on each of Everywhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/gpu.hpp>

#include "support/programs.hpp"
#include "support/small_runtimes.hpp"

#if !defined(__CUDACC__)
#include <ferry/device/service.hpp>
#include <ferry/ferry.hpp>

#include "support/kernel_threads.hpp"
#endif

namespace ferry::test {

// What tests of many simultaneous groups need of a runtime.
struct MachineOptions {
  std::uint32_t groups = 3;
  std::uint32_t services = 0;
  std::uint64_t arena_bytes = 8 << 20;
  std::uint64_t cache_pages = 24;  // of 4 KiB; fewer than the groups work on
};

inline RuntimeOptions runtime_options(const MachineOptions& wishes) {
  RuntimeOptions options = small_runtime(wishes.groups, wishes.arena_bytes);
  options.cache_bytes = wishes.cache_pages * 4096;
  options.files_max = 64;
  return options;
}

inline GpuOptions gpu_options(const MachineOptions& wishes) {
  GpuOptions options = small_gpu();
  options.groups = wishes.groups;
  options.services = wishes.services;
  options.calls_per_group = 64;  // batches need one for each of their transfers
  return options;
}

#if defined(__CUDACC__)

// Finds its group among the program's blocks, which exclude services.
template <class Kind, class Program>
struct BesideServices {
  Program program;
  std::uint32_t groups;
  __device__ void operator()(const device::Context*, unsigned block, unsigned) const {
    const std::uint32_t thread = block * device::threads_per_block() + device::thread_in_block();
    const std::uint32_t index = thread / Kind::lanes;
    if (index < groups) program(typename Kind::Group{}, index);
  }
};

class RealGpu {
 public:
  static constexpr const char* name = "Gpu";
  static constexpr std::uint32_t groups = 16;
  // A real lane costs nothing to switch to.
  static constexpr std::uint64_t cost_of(std::uint32_t /*lanes*/) { return 1; }

  explicit RealGpu(const MachineOptions& wishes)
      : runtime_(runtime_options(wishes), gpu_options(wishes)) {}

  GpuRuntime& runtime() { return runtime_; }
  const device::Context* context() const { return runtime_.context(); }
  // Runtime memory, as programs address it.
  template <class T>
  T* address(T* memory) const {
    return memory;
  }
  // run_groups() together with the runtime's services.
  template <class Kind, class Program>
  void run_with_services(std::uint32_t count, const Program& program) {
    const std::uint32_t threads = Kind::threads_per_block;
    gpu::launch_with_services(runtime_, (count * Kind::lanes + threads - 1) / threads, threads,
                              BesideServices<Kind, Program>{program, count});
  }

 private:
  GpuRuntime runtime_;
};

#else

class Cpu {
 public:
  static constexpr const char* name = "Cpu";
  static constexpr std::uint32_t groups = 3;
  // A call of many lanes costs a thread switch per lane and barrier.
  static constexpr std::uint64_t cost_of(std::uint32_t lanes) { return lanes == 1 ? 1 : 5 * lanes; }

  explicit Cpu(const MachineOptions& wishes) : runtime_(options_of(wishes)) {}

  Runtime& runtime() { return runtime_; }
  const device::Context* context() const { return &runtime_.context(); }
  template <class T>
  T* address(T* memory) const {
    return memory;
  }
  template <class Kind, class Program>
  void run_with_services(std::uint32_t count, const Program& program) {
    run_groups<Kind>(count, program);  // they run as long as the runtime
  }

 private:
  static RuntimeOptions options_of(const MachineOptions& wishes) {
    RuntimeOptions options = runtime_options(wishes);
    options.service_threads = wishes.services;
    return options;
  }

  Runtime runtime_;
};

class MockGpu {
 public:
  static constexpr const char* name = "MockGpu";
  static constexpr std::uint32_t groups = Cpu::groups;
  static constexpr std::uint64_t cost_of(std::uint32_t lanes) { return Cpu::cost_of(lanes); }

  explicit MockGpu(const MachineOptions& wishes)
      : runtime_(runtime_options(wishes), gpu_options(wishes)), kernel_(runtime_) {}

  GpuRuntime& runtime() { return runtime_; }
  const device::Context* context() const { return &kernel_.context(); }
  template <class T>
  T* address(T* memory) const {
    return kernel_.address(memory);
  }
  // Like ferry::gpu::launch_with_services().
  template <class Kind, class Program>
  void run_with_services(std::uint32_t count, const Program& program) {
    const device::Context& context = kernel_.context();
    const std::uint32_t services = runtime_.options().services;
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < services; ++i) {
      const std::uint32_t loop = context.arena.layout.geometry.loops + i;
      device::SystemRef<device::LoopPhase>(context.arena.loop_state(loop).phase)
          .store(device::LoopPhase::running, device::seq_cst);
      threads.emplace_back([this, &context, i] {
        run_group<Kind>(runtime_.first_service_group() + i, [&](auto group, std::uint32_t index) {
          device::ServiceLoop(context, group, i, index).run();
        });
      });
    }
    run_groups<Kind>(count, program);
    for (std::uint32_t i = 0; i < services; ++i)
      device::announce_stop(context, i);
    within_patience("the services end", [&] {
      for (std::thread& thread : threads)
        thread.join();
    });
  }

 private:
  GpuRuntime runtime_;
  const KernelThreads kernel_;
};

#endif

// A machine, and the kind of its groups.
template <class Machine_, class Kind_>
struct On {
  using Machine = Machine_;
  using Kind = Kind_;
};

#if defined(__CUDACC__)
using Everywhere = testing::Types<On<RealGpu, FERRY_TEST_KIND>>;
#else
using Everywhere = testing::Types<On<Cpu, Threads>, On<Cpu, Parts>, On<Cpu, Warps>, On<Cpu, Blocks>,
                                  On<MockGpu, Threads>, On<MockGpu, Parts>, On<MockGpu, Warps>,
                                  On<MockGpu, Blocks>>;
#endif

// The names for gtest.
struct NameOfPlace {
  template <class Place>
  static std::string GetName(int) {
    return std::string(Place::Machine::name) + "Of" + name_of_kind<typename Place::Kind>();
  }
};

// No data of a program is left in the cache, and the runtime ends without a fault.
template <class Machine>
void expect_clean_end(Machine& machine) {
  if constexpr (requires { machine.runtime().dirty_pages(); }) {
    EXPECT_EQ(machine.runtime().dirty_pages(), 0U);
  }
  const ShutdownReport report = machine.runtime().shutdown(std::chrono::seconds(10));
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.files_closed, 0U);
  EXPECT_TRUE(report.errors.empty()) << report.errors.front();
}

}  // namespace ferry::test
