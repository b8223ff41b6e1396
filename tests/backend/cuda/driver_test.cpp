// The driver's table, the reason for its absence, pointers' owners, and the release and the errors
// of contexts, memory and streams, on the mock driver.
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cuda/gpus.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/in_a_child.hpp"
#include "support/mock_gpu.hpp"

namespace ferry::cuda {
namespace {

using test::MockCuda;

struct CudaDriver : test::OnMockGpu {};

// What it says in its own process, without a loaded driver.
std::string said_in_a_child(const std::function<std::string()>& what) {
  const test::ScratchDirectory directory;
  EXPECT_EQ(test::in_a_child([&] {
              test::write_file(directory / "said", what());
              return 0;
            }),
            0);
  return test::read_file(directory / "said");
}

std::string refusal(const std::string& library) {
  try {
    const Driver driver(library);
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENODEV);
    return error.what();
  }
  return "";
}

TEST(CudaDriverAbsence, IsSaidInOneLine) {
  EXPECT_EQ(refusal("libno-such-cuda.so.1"),
            "libno-such-cuda.so.1 cannot be loaded; install NVIDIA's driver to use a GPU: No such "
            "device");
  EXPECT_EQ(refusal("libc.so.6"),
            "libc.so.6 has no function cuInit; update NVIDIA's driver: No such device");
}

TEST(CudaDriverAbsence, OfAGpuOrOfAYoungEnoughDriver) {
  const auto with = [](const char* name, const char* value) {
    return said_in_a_child([&] {
      setenv(name, value, 1);
      return Driver::find() == nullptr ? Driver::why_absent() : "found one";
    });
  };
  EXPECT_EQ(with("FERRY_MOCK_CUDA_DEVICES", "0"),
            "the CUDA driver finds no GPU it can use: CUDA_ERROR_NO_DEVICE, no CUDA-capable device "
            "is detected");
  EXPECT_EQ(with("FERRY_MOCK_CUDA_VERSION", "10020"),
            "the CUDA driver is too old (for CUDA 10.2); update it to one for CUDA 11.0 or later");
  EXPECT_EQ(with("FERRY_CUDA_LIBRARY", "/nowhere/libcuda.so.1"),
            "/nowhere/libcuda.so.1 cannot be loaded; install NVIDIA's driver to use a GPU");
  EXPECT_EQ(with("FERRY_MOCK_CUDA_VERSION", "12080"), "found one");
}

// A program without GPUs must not load a driver for its reads.
TEST(CudaDriverAbsence, StaysUntilSomebodyElseLoadsIt) {
  EXPECT_EQ(said_in_a_child([] {
              std::string said = Driver::in_use() == nullptr ? "unused, " : "in use, ";
              said += Driver::in_use() == nullptr ? "unused, " : "in use, ";
              dlopen(FERRY_MOCK_CUDA, RTLD_NOW);
              return said + (Driver::in_use() == nullptr ? "unused" : "in use");
            }),
            "unused, unused, in use");
}

TEST_F(CudaDriver, DescribesItsGpus) {
  const Driver& driver = Driver::get();
  EXPECT_EQ(driver.version(), 13000);
  ASSERT_EQ(driver.device_count(), 2);
  const DeviceInfo info = driver.device_info(1);
  EXPECT_EQ(info.name, "mock GPU 1 of Ferry's tests");
  EXPECT_EQ(info.pci_address, "ffff:01:00.0");
  EXPECT_EQ(info.memory_bytes, std::uint64_t{16} << 30);
  EXPECT_EQ(info.compute_major, 9);
  EXPECT_EQ(info.copy_engines, 2);
  for (const int ordinal : {-1, 2})
    EXPECT_EQ(test::error_of([&] { driver.device_info(ordinal); }), ENODEV) << ordinal;
}

TEST_F(CudaDriver, TurnsResultsIntoTextAndErrno) {
  const Driver& driver = Driver::get();
  EXPECT_EQ(driver.text(Result::out_of_memory), "CUDA_ERROR_OUT_OF_MEMORY, out of memory");
  EXPECT_EQ(driver.text(static_cast<Result>(12345)), "CUDA error 12345");
  EXPECT_EQ(error_number(Result::success), 0);
  EXPECT_EQ(error_number(Result::out_of_memory), ENOMEM);
  EXPECT_EQ(error_number(Result::no_device), ENODEV);
  EXPECT_EQ(error_number(Result::invalid_value), EINVAL);
  EXPECT_EQ(error_number(Result::ecc_uncorrectable), EIO);
  EXPECT_EQ(test::error_of([&] { driver.check(Result::out_of_memory, "cuMemAlloc"); },
                           "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, out of memory"),
            ENOMEM);
}

TEST_F(CudaDriver, TellsWhoseMemoryItIs) {
  const Driver& driver = *Driver::in_use();
  int local = 0;
  EXPECT_EQ(owner_of(&driver, &local).kind, MemoryKind::host);
  EXPECT_EQ(owner_of(nullptr, &local).kind, MemoryKind::host);

  const auto second = std::make_shared<PrimaryContext>(driver, 1);
  const DeviceMemory memory(second, 4096);
  auto* inside = reinterpret_cast<char*>(memory.pointer()) + 4095;
  EXPECT_EQ(owner_of(&driver, inside).kind, MemoryKind::device);
  EXPECT_EQ(owner_of(&driver, inside).ordinal, 1);
  EXPECT_EQ(owner_of(&driver, inside).context, second->handle());
  EXPECT_EQ(owner_of(&driver, inside + 1).kind, MemoryKind::host);

  const PinnedMemory pinned(gpu, 4096);
  EXPECT_EQ(owner_of(&driver, pinned.data()).kind, MemoryKind::pinned);
  std::vector<char> own(8192);
  {
    const Registration registration(gpu, own.data(), own.size());
    EXPECT_EQ(owner_of(&driver, own.data() + 1).kind, MemoryKind::pinned);
  }
  EXPECT_EQ(owner_of(&driver, own.data() + 1).kind, MemoryKind::host);

  const CurrentContext current(*gpu);
  DevicePointer managed = 0;
  driver.check(driver.cuMemAllocManaged(&managed, 4096, managed_attach_global), "managed");
  EXPECT_EQ(owner_of(&driver, reinterpret_cast<void*>(managed)).kind, MemoryKind::managed);
  driver.check(driver.cuMemFree(managed), "cuMemFree");

  MockCuda::set("lost", 1);
  EXPECT_THROW(owner_of(&driver, inside), Error);
  MockCuda::set("lost", 0);
}

struct CudaResources : test::OnMockGpu {
  const Driver& driver = Driver::get();
  ContextHandle current_handle() const {
    ContextHandle handle = nullptr;
    driver.check(driver.cuCtxGetCurrent(&handle), "cuCtxGetCurrent");
    return handle;
  }
};

TEST_F(CudaResources, ContextsAreCurrentInTurn) {
  const PrimaryContext second(driver, 1);
  EXPECT_EQ(current_handle(), nullptr);
  {
    const CurrentContext outer(*gpu);
    EXPECT_EQ(current_handle(), gpu->handle());
    {
      const CurrentContext inner(second);
      EXPECT_EQ(current_handle(), second.handle());
    }
    EXPECT_EQ(current_handle(), gpu->handle());
  }
  EXPECT_EQ(current_handle(), nullptr);
}

TEST_F(CudaResources, GiveBackWhatTheyTook) {
  {
    const PinnedMemory pinned(gpu, 4096);
    const GpuStream stream(gpu);
    std::string own(8192, 'a');
    const Registration registration(gpu, own.data(), own.size());
    EXPECT_EQ(MockCuda::get("pinned_bytes"), 4096 + 8192);
    EXPECT_EQ(MockCuda::get("streams"), 1);
    EXPECT_NE(pinned.device_pointer(), 0U);
    EXPECT_THROW(Registration(gpu, own.data(), own.size()), Error) << "registered twice";
  }
  EXPECT_EQ(MockCuda::get("pinned_bytes"), 0);
  EXPECT_EQ(MockCuda::get("streams"), 0);
}

TEST_F(CudaResources, SayWhatThereIsNotEnoughOf) {
  MockCuda::set("out_of_memory", 1);
  EXPECT_EQ(test::error_of([&] { PinnedMemory(gpu, 4096); }), ENOMEM);
  EXPECT_EQ(test::error_of([&] { DeviceMemory(gpu, 4096); }), ENOMEM);
  EXPECT_EQ(test::error_of([&] { PrimaryContext(driver, 7); }), ENODEV);
}

}  // namespace
}  // namespace ferry::cuda
