// Files generated while they are read: their size is not the amount of data.
#include <cerrno>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Placement;

// One with size 0, and one that reports a page.
class GeneratedFile : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (access(GetParam(), R_OK) != 0) GTEST_SKIP() << GetParam() << " is not there";
    RuntimeOptions options;
    options.arena_bytes = 4 << 20;
    options.device_threads = 1;
    options.files_max = 8;
    options.cache_bytes = std::uint64_t{64} * 4096;
    options.page_bytes = 4096;
    runtime = std::make_unique<Runtime>(options);
  }
  std::unique_ptr<Runtime> runtime;
};

TEST_P(GeneratedFile, IsReadToItsEndInEveryPlacement) {
  const std::string text = test::read_file(GetParam());
  ASSERT_GT(text.size(), 4U);
  ASSERT_NE(static_cast<std::int64_t>(text.size()), test::file_size(GetParam()));
  test::within_patience("a device program", [&] {
    runtime->run([&](DeviceThread& self) {
      const int file = self.files.open(GetParam(), O_RDONLY);
      ASSERT_GT(file, 0);
      for (const Placement placement : {Placement::host, Placement::compute, Placement::service,
                                        Placement::automatic, Placement::compute}) {
        self.files.use(placement);
        std::string got(8192, '\0');
        const std::int64_t bytes = self.files.pread(file, got.data(), got.size(), 0);
        ASSERT_EQ(bytes, static_cast<std::int64_t>(text.size())) << static_cast<int>(placement);
        EXPECT_EQ(got.substr(0, text.size()), text);
        EXPECT_EQ(self.files.pread(file, got.data(), 2, 2), 2);
        EXPECT_EQ(got.substr(0, 2), text.substr(2, 2));
        EXPECT_EQ(self.files.pread(file, got.data(), 10, bytes), 0);
      }
      device::cache::PinnedView view;
      EXPECT_EQ(self.files.hold(file, 0, 4, view), -EOPNOTSUPP);
      EXPECT_EQ(self.files.close(file), 0);
    });
  });
  EXPECT_EQ(runtime->statistics().cache.fills, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kernel, GeneratedFile,
                         testing::Values("/proc/self/cmdline",
                                         "/sys/kernel/mm/transparent_hugepage/enabled"),
                         [](const auto& each) {
                           return std::string(each.param[1] == 'p' ? "proc" : "sys");
                         });

}  // namespace
}  // namespace ferry
