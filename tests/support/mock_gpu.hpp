// Uses the mock CUDA driver (tests/mocks/cuda) instead of the real one, and memory of its GPUs.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backend/cuda/copy_engine.hpp"

namespace ferry::test {

// Before anything looks for a driver.
inline const bool mock_cuda_is_named = setenv("FERRY_CUDA_LIBRARY", FERRY_MOCK_CUDA, 1) == 0;

// A function of a loaded library.
template <class Function>
Function* function_of(const char* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen(library, RTLD_NOW | RTLD_LOCAL), name));
}

// Its faults and counters; see tests/mocks/cuda/machine.cpp for their names.
class MockCuda {
 public:
  static long get(const char* name) {
    return function_of<long(const char*)>(FERRY_MOCK_CUDA, "ferry_mock_cuda_get")(name);
  }
  static void set(const char* name, long value) {
    function_of<void(const char*, long)>(FERRY_MOCK_CUDA, "ferry_mock_cuda_set")(name, value);
  }
};

// Memory of a mock GPU, filled and read by blocking copies.
class GpuBuffer {
 public:
  GpuBuffer(std::shared_ptr<const cuda::PrimaryContext> context, std::size_t bytes)
      : context_(std::move(context)), memory_(context_, bytes) {}
  void* data() const { return reinterpret_cast<void*>(memory_.pointer()); }
  std::size_t bytes() const { return memory_.bytes(); }
  void fill(const std::string& with) const {
    cuda::copy_now(*context_, Direction::read, const_cast<char*>(with.data()), memory_.pointer(),
                   with.size());
  }
  std::string contents() const {
    std::string got(bytes(), '\0');
    cuda::copy_now(*context_, Direction::write, got.data(), memory_.pointer(), got.size());
    return got;
  }

 private:
  const std::shared_ptr<const cuda::PrimaryContext> context_;
  const cuda::DeviceMemory memory_;
};

// Every test starts without faults, and must not have freed anything too early.
struct OnMockGpu : testing::Test {
  void SetUp() override { clear_faults(); }
  void TearDown() override {
    clear_faults();
    EXPECT_EQ(MockCuda::get("freed_under_a_copy"), 0);
  }
  static void clear_faults() {
    for (const char* fault : {"out_of_memory", "fail_copy_call", "fail_copy", "lost",
                              "copy_delay_us", "hold_copies", "kernel_runs"}) {
      MockCuda::set(fault, 0);
    }
  }
  static void* inside(const GpuBuffer& buffer, std::size_t offset) {
    return static_cast<char*>(buffer.data()) + offset;
  }
  const std::shared_ptr<const cuda::PrimaryContext> gpu =
      std::make_shared<cuda::PrimaryContext>(cuda::Driver::get(), 0);
};

}  // namespace ferry::test
