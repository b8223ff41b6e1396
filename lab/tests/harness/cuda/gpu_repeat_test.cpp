// Measuring in kernels while the GPU or its driver fails, on the mock;
// lab/tests/run/test_bench_cuda.py tests success.
#include "harness/cuda/gpu_repeat.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/kernel_threads.hpp"

namespace ferry::bench {
namespace {

using test::MockCuda;

constexpr std::uint64_t call_bytes = 4096;

struct GpuRepeats : test::OnMockGpu {
  GpuRepeats() {
    setenv("FERRY_MOCK_KERNELS", FERRY_MOCK_KERNELS, 1);
    cell.operation = MeasuredOperation::write;
    cell.path = directory / "file";
    cell.transfer_bytes = call_bytes;
    cell.total_bytes = 8 * call_bytes;
    cell.threads = 2;
  }
  ~GpuRepeats() override {
    for (const char* fault : {"newer_kernels", "fail_launch", "fail_kernel"})
      MockCuda::set(fault, 0);
  }

  Sample write(GpuRuntime& runtime, const MeasuredKernel& kernel) {
    return run_on_gpu(runtime, kernel, CellRun{cell, 0, 7, O_CREAT, ""}, stopped);
  }

  const test::ScratchDirectory directory;
  Cell cell;
  const std::atomic<bool> stopped{false};
  const RuntimeOptions options = test::small_runtime(2, 1 << 20);
};

TEST_F(GpuRepeats, DriversThatAreTooOldAreSaidToBe) {
  MockCuda::set("newer_kernels", 1);
  try {
    const MeasuredKernel kernel(gpu);
    FAIL() << "it was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOTSUP);
    EXPECT_NE(error.reason().find("update NVIDIA's driver"), std::string::npos);
  }
}

TEST_F(GpuRepeats, KernelsThatTheDriverHasNotAreAnError) {
  unsetenv("FERRY_MOCK_KERNELS");
  EXPECT_EQ(test::error_of([&] { const MeasuredKernel kernel(gpu); }), ENOTSUP);
}

// Fails every launch of a repeat in turn: nothing stays open, and the next repeat works.
TEST_F(GpuRepeats, LaunchesThatAreRefusedEndTheRepeat) {
  const MeasuredKernel kernel(gpu);
  GpuRuntime runtime(options, test::small_gpu());
  for (const bool barriers : {false, true}) {
    cell.barriers = barriers;
    int refused = 0;
    for (;; ++refused) {
      MockCuda::set("fail_launch", refused + 1);
      const int error = test::error_of([&] { write(runtime, kernel); });
      if (MockCuda::get("fail_launch") > 0) break;  // there were fewer
      EXPECT_NE(error, 0);
    }
    MockCuda::set("fail_launch", 0);
    EXPECT_EQ(refused, barriers ? 5 : 4);
    EXPECT_EQ(write(runtime, kernel).operations, 8U);
  }
  EXPECT_EQ(runtime.shutdown(std::chrono::seconds(10)).files_closed, 0U);
}

TEST_F(GpuRepeats, WarpsTimeEveryCallIfAsked) {
  const MeasuredKernel kernel(gpu);
  GpuRuntime runtime(options, test::small_gpu());
  EXPECT_EQ(write(runtime, kernel).latencies.samples(), 2U);
  cell.latency = true;
  const Sample sample = write(runtime, kernel);
  EXPECT_EQ(sample.latencies.samples(), 8U);
  EXPECT_GE(sample.latencies.longest_ns, sample.latencies.percentile(500));
}

TEST_F(GpuRepeats, AKernelThatCrashesEndsTheRepeat) {
  const MeasuredKernel kernel(gpu);
  GpuRuntime runtime(options, test::small_gpu());
  MockCuda::set("fail_kernel", 3);
  EXPECT_EQ(test::error_of([&] { write(runtime, kernel); }), EIO);
}

TEST_F(GpuRepeats, WhatIsStoppedBeginsNothing) {
  const MeasuredKernel kernel(gpu);
  GpuRuntime runtime(options, test::small_gpu());
  const std::atomic<bool> now{true};
  const CellRun run{cell, 0, 7, O_CREAT, ""};
  EXPECT_EQ(test::error_of([&] { run_on_gpu(runtime, kernel, run, now); }), EINTR);
  EXPECT_FALSE(std::filesystem::exists(cell.path));
}

}  // namespace
}  // namespace ferry::bench
