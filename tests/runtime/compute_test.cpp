// Placement `compute`: effects of the page cache besides bytes (see random_calls_test.cpp).
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ferry/ferry.hpp>

#include "runtime/cache_plan.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"

namespace ferry {
namespace {

using device::Placement;
using test::pattern;
using test::read_at;
using test::read_file;
using test::same_bytes;

RuntimeOptions cached() {
  return test::cached_options(64, Placement::compute);
}

class Compute : public test::OnCachedRuntime {
 protected:
  void SetUp() override { runtime = std::make_unique<Runtime>(cached()); }
  const std::string data = pattern(10'000, 1);
};

TEST_F(Compute, WritesReachTheFileOnFlushAndOnClose) {
  on_device([&](Files& files) {
    const int file = files.open(path.c_str(), O_RDWR | O_CREAT, 0644);
    ASSERT_GT(file, 0);
    ASSERT_EQ(files.pwrite(file, data.data(), data.size(), 0), 10'000);
    EXPECT_EQ(read_file(path), "") << "nothing is dirty, so nothing is cached";
    device::FileStatus status{};
    EXPECT_EQ(files.fstat(file, &status), 0);
    EXPECT_EQ(status.size_bytes, 10'000U);
    EXPECT_EQ(files.stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.size_bytes, 10'000U);
    ASSERT_EQ(files.flush(file), 0);
    EXPECT_TRUE(same_bytes(read_file(path), data));
    ASSERT_EQ(files.pwrite(file, "end", 3, 10'000), 3);
    ASSERT_EQ(files.close(file), 0);
    EXPECT_EQ(files.flush(file), -EBADF);
  });
  EXPECT_TRUE(same_bytes(read_file(path), data + "end"));
  const device::cache::Counters counters = runtime->statistics().cache;
  EXPECT_EQ(counters.write_back_bytes, 10'003U);
}

TEST_F(Compute, ASecondReadAsksTheServerNothing) {
  test::write_file(path, data);
  on_file(path, O_RDONLY, [&](Files& files, int file) {
    ASSERT_EQ(read_at(files, file, 10'000, 0).size(), 10'000U);
    const RuntimeStatistics before = runtime->statistics();
    EXPECT_TRUE(same_bytes(read_at(files, file, 10'000, 0), data));
    EXPECT_EQ(runtime->statistics().calls, before.calls);
    EXPECT_EQ(runtime->statistics().cache.hits, before.cache.hits + 3);
  });
}

TEST_F(Compute, ShutdownWritesBackWhatIsDirty) {
  leave_dirty(data);
  test::expect_good_end(runtime->shutdown(test::patience));
  EXPECT_TRUE(same_bytes(read_file(path), data));
}

// A limit on the size of files, lifted between the two.
TEST_F(Compute, ASecondShutdownWritesWhatTheFirstCouldNot) {
  leave_dirty(data);
  struct rlimit usual {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto signalled = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit none { 0, usual.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const ShutdownReport first = runtime->shutdown(test::patience);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, signalled);
  EXPECT_FALSE(first.finished);
  ASSERT_EQ(first.errors.size(), 1U);
  EXPECT_EQ(first.errors[0], "writing back " + path + ": File too large (3 pages)");
  test::expect_good_end(runtime->shutdown(test::patience));
  EXPECT_TRUE(same_bytes(read_file(path), data));
}

TEST_F(Compute, TheNextOpenSeesWhatOthersDidMeanwhile) {
  test::write_file(path, data);
  const auto look = [&] {
    std::string got;
    on_file(path, O_RDONLY, [&](Files& files, int file) { got = read_at(files, file, 20'000, 0); });
    return got;
  };
  EXPECT_TRUE(same_bytes(look(), data));
  const std::string other = pattern(12'345, 2);
  test::write_file(path, other);
  EXPECT_TRUE(same_bytes(look(), other));
}

TEST_F(Compute, RefusesWhatPosixRefuses) {
  test::write_file(path, data);
  on_device([&](Files& files) {
    char byte = 'x';
    const int reader = files.open(path.c_str(), O_RDONLY);
    EXPECT_EQ(files.pwrite(reader, &byte, 1, 0), -EBADF);
    EXPECT_EQ(files.pread(reader, &byte, 1, -1), -EINVAL);
    EXPECT_EQ(files.pread(reader, nullptr, 1, 0), -EFAULT);
    EXPECT_EQ(files.ftruncate(reader, 1), -EINVAL);
    const int writer = files.open(path.c_str(), O_WRONLY);
    EXPECT_EQ(files.pread(writer, &byte, 1, 0), -EBADF);
    EXPECT_EQ(files.pwrite(writer, &byte, 1, 5), 1);
    EXPECT_EQ(files.ftruncate(writer, -1), -EINVAL);
    EXPECT_EQ(files.pread(reader, &byte, 1, 4), 1) << "the gap of a page whose writer cannot read";
    EXPECT_EQ(byte, data[4]);
    EXPECT_EQ(files.close(reader), 0);
    EXPECT_EQ(files.pread(reader, &byte, 1, 0), -EBADF);
    EXPECT_EQ(files.close(writer), 0);
    const int there = files.open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(files.pread(there, &byte, 1, 0), -EISDIR);
    EXPECT_EQ(files.close(there), 0);
  });
  std::string model = data;
  model[5] = 'x';
  EXPECT_TRUE(same_bytes(read_file(path), model));
}

TEST_F(Compute, PrefetchBringsARangeAndSaysWhatIsWrong) {
  test::write_file(path, pattern(100'000, 1));
  on_device([&](Files& files) {
    const int file = files.open(path.c_str(), O_RDONLY);
    EXPECT_EQ(files.prefetch(file, 0, 100'000), 0);
    EXPECT_TRUE(same_bytes(read_at(files, file, 100'000, 0), pattern(100'000, 1)));
    EXPECT_EQ(runtime->statistics().cache.misses, 0U);
    EXPECT_EQ(runtime->statistics().cache.readahead_used, 25U);
    EXPECT_EQ(files.prefetch(file, -1, 1), -EINVAL);
    EXPECT_EQ(files.close(file), 0);
    EXPECT_EQ(files.prefetch(file, 0, 1), -EBADF);
    const int writer = files.open(path.c_str(), O_WRONLY);
    EXPECT_EQ(files.prefetch(writer, 0, 1), -EBADF);
    EXPECT_EQ(files.close(writer), 0);
  });
}

TEST_F(Compute, ASequentialReaderIsReadAhead) {
  const std::string large = pattern(1 << 20, 1);
  test::write_file(path, large);
  on_file(path, O_RDONLY, [&](Files& files, int file) {
    std::string got(large.size(), '\0');
    for (std::size_t at = 0; at < large.size(); at += 1000) {
      const std::size_t step = std::min<std::size_t>(1000, large.size() - at);
      ASSERT_EQ(files.read(file, got.data() + at, step), static_cast<std::int64_t>(step));
    }
    EXPECT_TRUE(same_bytes(got, large));
  });
  EXPECT_LE(runtime->statistics().cache.misses, 3U);
  EXPECT_GE(runtime->statistics().cache.readahead_used, 253U);
}

TEST_F(Compute, AViewShowsAPageUntilItIsReleased) {
  test::write_file(path, data);
  on_file(path, O_RDWR, [&](Files& files, int file) {
    device::cache::PinnedView view;
    ASSERT_EQ(files.hold(file, 4096 + 96, 100, view), 100);
    EXPECT_EQ(std::memcmp(view.data, data.data() + 4192, 100), 0);
    files.use(Placement::host);
    ASSERT_EQ(files.pwrite(file, "host", 4, 4192), 4);
    EXPECT_EQ(std::memcmp(view.data, "host", 4), 0) << "views follow writes of any placement";
    files.release(view);
    files.release(view);
    EXPECT_EQ(view.data, nullptr);
    EXPECT_EQ(files.hold(file, 10'000, 1, view), 0) << "the end of the file";
    EXPECT_EQ(files.hold(file, -1, 1, view), -EINVAL);
    EXPECT_EQ(files.hold(99, 0, 1, view), -EBADF);
    const int there = files.open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(files.hold(there, 0, 1, view), -EOPNOTSUPP);
    EXPECT_EQ(files.prefetch(there, 0, 1), 0) << "only advice";
    EXPECT_EQ(files.close(there), 0);
  });
}

TEST(ComputeOptions, ImpossibleSizesAreErrors) {
  for (const std::uint32_t page : {1U, 2048U, 5000U, 4U << 20}) {
    RuntimeOptions options = cached();
    options.page_bytes = page;
    EXPECT_THROW(Runtime{options}, Error) << page;
  }
  RuntimeOptions options = cached();
  options.cache_bytes = 4095;
  EXPECT_THROW(Runtime{options}, Error);
}

TEST(ComputeOptions, TooManyThreadsAndRingsAreAnError) {
  const auto start = [](auto option, unsigned count) {
    RuntimeOptions options = cached();
    options.*option = count;
    const Runtime runtime(options);
  };
  const auto refuses = [&](auto option, unsigned first, const char* why) {
    for (const unsigned count : {first, 1U << 30, ~0U - 1, ~0U})
      EXPECT_EQ(test::error_of([&] { start(option, count); }, why), EINVAL) << count;
  };
  refuses(&RuntimeOptions::device_threads, 16'385, "device_threads: at most 16384");
  refuses(&RuntimeOptions::server_threads, 4097, "server_threads: at most 4096");
  refuses(&RuntimeOptions::service_threads, 4097, "service_threads: at most 4096");
  refuses(&RuntimeOptions::rings, 65'537, "rings: at most 65536");
}

// More than a page's state can count pins of.
TEST(ComputeOptions, TooManyGroupsAreAnError) {
  device::Geometry geometry;
  geometry.files = 16;
  geometry.groups = device::cache::groups_max;
  EXPECT_EQ(cache_layout(cached(), geometry).geometry.groups, device::cache::groups_max);
  ++geometry.groups;
  EXPECT_EQ(test::error_of([&] { cache_layout(cached(), geometry); }, "groups"), EINVAL);
}

}  // namespace
}  // namespace ferry
