// Files generated while they are read: their size is not the amount of data.
#include <cerrno>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"

namespace ferry {
namespace {

using device::Placement;

// One with size 0, and one that reports a page.
class GeneratedFile : public testing::TestWithParam<const char*>, protected test::WithRuntime {
 protected:
  void SetUp() override {
    if (access(GetParam(), R_OK) != 0) GTEST_SKIP() << GetParam() << " is not there";
    runtime = std::make_unique<Runtime>(test::cached_options(64));
  }
};

TEST_P(GeneratedFile, IsReadToItsEndInEveryPlacement) {
  const std::string text = test::read_file(GetParam());
  ASSERT_GT(text.size(), 4U);
  ASSERT_NE(static_cast<std::int64_t>(text.size()), test::file_size(GetParam()));
  on_file(GetParam(), O_RDONLY, [&](Files& files, int file) {
    for (const Placement placement : {Placement::host, Placement::compute, Placement::service,
                                      Placement::automatic, Placement::compute}) {
      files.use(placement);
      ASSERT_EQ(test::read_at(files, file, 8192, 0), text) << static_cast<int>(placement);
      EXPECT_EQ(test::read_at(files, file, 2, 2), text.substr(2, 2));
      EXPECT_EQ(test::read_at(files, file, 10, std::ssize(text)), "");
    }
    device::cache::PinnedView view;
    EXPECT_EQ(files.hold(file, 0, 4, view), -EOPNOTSUPP);
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
