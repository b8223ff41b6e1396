// The meaning of cuFile's answers, and when it is asked.
#include "backend/cuda/gpudirect.hpp"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <unistd.h>

#include "support/in_a_child.hpp"

namespace ferry::cuda {
namespace {

// The layer below a driver, or why there is none.
std::string answer(const char* wish, const char* library = FERRY_MOCK_CUFILE_LIBRARY) {
  setenv("FERRY_MOCK_CUFILE", wish, 1);
  try {
    return GpuDirectDriver(library).beneath();
  } catch (const Error& error) {
    return error.reason();
  }
}

TEST(GpuDirectDriver, TellsWorkingFromCompatibilityMode) {
  EXPECT_EQ(answer("nvidia-fs"), "nvidia-fs 2.24");
  EXPECT_EQ(answer("p2p"), "the kernel's PCI P2PDMA");
  EXPECT_NE(answer("compatibility").find("compatibility mode only"), std::string::npos);
  EXPECT_EQ(answer("refuses"), "cuFileDriverOpen failed with error 5001");
}

TEST(GpuDirectDriver, SaysThatThereIsNoLibrary) {
  EXPECT_EQ(answer("", "libno-such-cufile.so.0"), "libno-such-cufile.so.0 cannot be loaded");
  EXPECT_EQ(answer("", "libc.so.6"), "libc.so.6 has not the functions of cuFile");
}

TEST(GpuDirectDriver, KnowsWhichFileSystemsItServes) {
  setenv("FERRY_MOCK_CUFILE", "nvidia-fs", 1);
  const GpuDirectDriver module(FERRY_MOCK_CUFILE_LIBRARY);
  EXPECT_TRUE(module.serves(EXT4_SUPER_MAGIC));
  EXPECT_TRUE(module.serves(XFS_SUPER_MAGIC));
  EXPECT_TRUE(module.serves(NFS_SUPER_MAGIC));
  EXPECT_FALSE(module.serves(0x0bd00bd0)) << "Lustre, of which the mock says nothing";
  EXPECT_FALSE(module.serves(OVERLAYFS_SUPER_MAGIC));
  setenv("FERRY_MOCK_CUFILE", "p2p", 1);
  const GpuDirectDriver kernel(FERRY_MOCK_CUFILE_LIBRARY);
  EXPECT_TRUE(kernel.serves(EXT4_SUPER_MAGIC));
  EXPECT_FALSE(kernel.serves(NFS_SUPER_MAGIC));
}

// In a child, because a process decides only once whether to use cuFile.
TEST(GpuDirectDriver, IsSharedAndBelongsToOneProcess) {
  const auto work = [] {
    setenv("FERRY_CUFILE_LIBRARY", FERRY_MOCK_CUFILE_LIBRARY, 1);
    setenv("FERRY_MOCK_CUFILE", "p2p", 1);
    std::string why;
    setenv("FERRY_GPUDIRECT", "off", 1);
    if (GpuDirectDriver::shared(why) != nullptr || why != "FERRY_GPUDIRECT=off") return 1;
    setenv("FERRY_GPUDIRECT", "on", 1);
    auto first = GpuDirectDriver::shared(why);
    const auto second = GpuDirectDriver::shared(why);
    if (first == nullptr || first != second) return 2;
    return test::in_a_child([&] {
      const bool refused = GpuDirectDriver::shared(why) == nullptr;
      return refused && why == "cuFile belongs to the parent of this process" ? 0 : 3;
    });
  };
  EXPECT_EQ(test::in_a_child(work), 0);
}

TEST(GpuDirectDriver, IsNotAskedOnItsOwnWithoutTheKernelModule) {
  if (access("/proc/driver/nvidia-fs", F_OK) == 0) GTEST_SKIP() << "nvidia-fs is loaded here";
  unsetenv("FERRY_GPUDIRECT");
  std::string why;
  EXPECT_EQ(GpuDirectDriver::shared(why), nullptr);
  EXPECT_NE(why.find("nvidia-fs is not loaded"), std::string::npos);
}

}  // namespace
}  // namespace ferry::cuda
