// What cuFile's answers mean.
#include "devices/cuda/gpudirect.hpp"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace ferry::cuda {
namespace {

GpuDirect answer(const char* wish) {
  setenv("FERRY_MOCK_CUFILE", wish, 1);
  return probe_gpudirect(FERRY_MOCK_CUFILE_LIBRARY);
}

TEST(GpuDirectProbe, TellsWorkingFromCompatibilityMode) {
  EXPECT_TRUE(answer("nvidia-fs").works);
  EXPECT_EQ(answer("nvidia-fs").why, "cuFile works with nvidia-fs 2.24");
  EXPECT_TRUE(answer("p2p").works);
  EXPECT_FALSE(answer("compatibility").works);
  EXPECT_NE(answer("compatibility").why.find("compatibility mode"), std::string::npos);
  EXPECT_FALSE(answer("refuses").works);
  EXPECT_EQ(answer("refuses").why, "cuFileDriverOpen failed with error 5001");
}

TEST(GpuDirectProbe, SaysThatThereIsNoLibrary) {
  EXPECT_EQ(probe_gpudirect("libno-such-cufile.so.0").why,
            "libno-such-cufile.so.0 cannot be loaded");
  EXPECT_EQ(probe_gpudirect("libc.so.6").why, "libc.so.6 has not the functions of cuFile");
}

}  // namespace
}  // namespace ferry::cuda
