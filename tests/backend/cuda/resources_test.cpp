// Contexts, memory and streams: their release, and their errors.
#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "support/error_of.hpp"
#include "support/mock_gpu.hpp"

namespace ferry::cuda {
namespace {

using test::MockCuda;

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
