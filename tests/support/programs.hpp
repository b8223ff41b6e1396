// Device programs of tests, and where they run: compiled as C++ on threads and emulated lanes,
// compiled by nvcc in kernels on a GPU. One source for both:
//
//   struct AddOne {                                   // a program: what it works on, and a call
//     std::uint32_t* sums;
//     test::Checks checks;
//     template <class Group>
//     FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
//       if (group.lane() == 0) checks.equal(++sums[index], 1U);
//     }
//   };
//   test::run_groups<test::Warps>(groups, AddOne{...});
//   EXPECT_EQ(found.text(), "");
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#if defined(__CUDACC__)
#include <ferry/cuda.hpp>
#else
#include "backend/cpu/hooks.hpp"
#include "backend/cpu/lanes.hpp"
#include "support/within.hpp"
#endif

#include <ferry/device/group.hpp>
#include <ferry/device/platform.hpp>

#include "support/data.hpp"

namespace ferry::test {

// Zeroed memory that host and device programs use in turn.
template <class T>
class SharedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit SharedArray(std::size_t count) : count_(count) {
    const std::size_t bytes = (count * sizeof(T) + 4095) / 4096 * 4096 + 4096;
#if defined(__CUDACC__)
    gpu::check(cudaMallocManaged(&data_, bytes), "cudaMallocManaged");
#else
    data_ = static_cast<T*>(std::aligned_alloc(4096, bytes));
    if (data_ == nullptr) throw std::bad_alloc();
#endif
    std::memset(static_cast<void*>(data_), 0, bytes);
  }
  ~SharedArray() {
#if defined(__CUDACC__)
    cudaFree(data_);
#else
    std::free(data_);
#endif
  }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T* data() const {
    return data_;
  }
  std::size_t count() const {
    return count_;
  }
  T& operator[](std::size_t index) const {
    return data_[index];
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Random numbers in device programs.
class DeviceRandom {
 public:
  FERRY_DEVICE explicit DeviceRandom(std::uint64_t seed = 1) : state_(seed) {}

  FERRY_DEVICE std::uint64_t bits() {
    std::uint64_t word = (state_ += 0x9e3779b97f4a7c15ULL);
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31);
  }
  // From 0 to count - 1.
  FERRY_DEVICE std::uint64_t below(std::uint64_t count) { return bits() % count; }
  FERRY_DEVICE bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

// The failed checks of a program; keeps the first.
struct Findings {
  std::uint32_t count;
  std::int32_t line;
  std::int64_t got;
  std::int64_t wanted;
};

// The checks in programs. For any number of threads at a time.
class Checks {
 public:
  FERRY_DEVICE explicit Checks(Findings* findings) : findings_(findings) {}

  // Whether it is right.
  template <class Got, class Wanted>
  FERRY_DEVICE bool equal(Got got, Wanted wanted, int line = __builtin_LINE()) const {
    const auto first = static_cast<std::int64_t>(got);
    const auto second = static_cast<std::int64_t>(wanted);
    if (first == second) return true;
    if (device::DeviceRef<std::uint32_t>(findings_->count).fetch_add(1, device::relaxed) == 0) {
      findings_->line = line;
      findings_->got = first;
      findings_->wanted = second;
    }
    return false;
  }
  FERRY_DEVICE bool right(bool condition, int line = __builtin_LINE()) const {
    return equal(condition, true, line);
  }
  // Whether any check has failed; a program may then stop.
  FERRY_DEVICE bool failed() const {
    return device::DeviceRef<std::uint32_t>(findings_->count).load(device::relaxed) != 0;
  }

 private:
  Findings* findings_;
};

// The host's side of them.
class ProgramReport {
 public:
  ProgramReport() : findings_(1) {}
  Checks checks() const { return Checks(findings_.data()); }
  // Nothing, or the first failure.
  std::string text() const {
    const Findings& found = findings_[0];
    if (found.count == 0) return "";
    return std::to_string(found.count) + " checks failed, the first in line " +
           std::to_string(found.line) + ": " + std::to_string(found.got) + " instead of " +
           std::to_string(found.wanted);
  }

 private:
  SharedArray<Findings> findings_;
};

// ---- kinds of groups ----

#if defined(__CUDACC__)
// An emulated lane costs a thread switch at every barrier.
inline constexpr bool lanes_are_real = true;

struct Threads {
  using Group = device::ThreadGroup;
  static constexpr std::uint32_t lanes = 1;
  static constexpr std::uint32_t threads_per_block = 4;
  __device__ static std::uint32_t index() { return device::thread_in_grid(); }
};
template <std::uint32_t lanes_>
struct Tiles {
  using Group = device::TileGroup<lanes_>;
  static constexpr std::uint32_t lanes = lanes_;
  static constexpr std::uint32_t threads_per_block = 64;
  __device__ static std::uint32_t index() { return Group::index_in_grid(); }
};
struct Blocks {
  using Group = device::BlockGroup;
  static constexpr std::uint32_t lanes = 128;
  static constexpr std::uint32_t threads_per_block = 128;
  __device__ static std::uint32_t index() { return Group::index_in_grid(); }
};
#else
inline constexpr bool lanes_are_real = false;

struct Threads {
  using Group = device::ThreadGroup;
  static constexpr std::uint32_t lanes = 1;
};
template <std::uint32_t lanes_>
struct Tiles {
  using Group = cpu::LaneGroup;
  static constexpr std::uint32_t lanes = lanes_;
};
// Fewer than a block has, but more than a warp.
struct Blocks {
  using Group = cpu::LaneGroup;
  static constexpr std::uint32_t lanes = 40;
};
#endif
using Parts = Tiles<8>;
using Warps = Tiles<32>;

// For typed suites. One kind of kernel at a time, because the compiler takes a minute for each that
// makes all calls.
#if defined(__CUDACC__)
#if !defined(FERRY_TEST_KIND)
#define FERRY_TEST_KIND Warps
#endif
using EveryKind = testing::Types<FERRY_TEST_KIND>;
#else
using EveryKind = testing::Types<Threads, Parts, Warps, Blocks>;
#endif

// The names for gtest.
template <class Kind>
std::string name_of_kind() {
  if constexpr (std::is_same_v<Kind, Threads>) return "Threads";
  if constexpr (std::is_same_v<Kind, Parts>) return "Parts";
  if constexpr (std::is_same_v<Kind, Warps>) return "Warps";
  if constexpr (std::is_same_v<Kind, Blocks>) return "Blocks";
}
struct NameOfKind {
  template <class Kind>
  static std::string GetName(int) {
    return name_of_kind<Kind>();
  }
};

// ---- running them ----

#if defined(__CUDACC__)
template <class Kind, class Program>
FERRY_KERNEL run_in_kernel(Program program, std::uint32_t groups) {
  const std::uint32_t index = Kind::index();
  if (index < groups) program(typename Kind::Group{}, index);
}
#else
// One group, on as many threads as it has lanes.
template <class Kind, class Program>
void run_group(std::uint32_t index, const Program& program) {
  if constexpr (Kind::lanes == 1) {
    program(device::ThreadGroup{}, index);
  } else {
    cpu::run_lanes(Kind::lanes, [&](cpu::LaneGroup group) { program(group, index); });
  }
}
#endif

// Runs `program(group, index)` on `groups` groups at once, and waits for them. Few enough to fit on
// a GPU together, so that they may wait for one another.
template <class Kind, class Program>
void run_groups(std::uint32_t groups, const Program& program) {
#if defined(__CUDACC__)
  const std::uint32_t threads = Kind::threads_per_block;
  run_in_kernel<Kind><<<(groups * Kind::lanes + threads - 1) / threads, threads>>>(program, groups);
  gpu::check(cudaGetLastError(), "the launch");
  gpu::check(cudaDeviceSynchronize(), "the kernel");
#else
  at_once("a device program", groups, [&](std::uint32_t i) { run_group<Kind>(i, program); });
#endif
}

// How a device program waits.
inline device::HostHooks device_hooks() {
#if defined(__CUDACC__)
  return device::HostHooks{};
#else
  return cpu::host_hooks();
#endif
}
// Lets others run, for programs that wait for one another.
FERRY_DEVICE inline void let_others_run() {
#if defined(__CUDA_ARCH__)
  __nanosleep(200);
#elif !defined(__CUDACC__)
  std::this_thread::yield();
#endif
}

}  // namespace ferry::test
