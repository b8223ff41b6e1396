// What the tests of bulk transfers share: engines by route, cold files, and GPU memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/bulk.hpp>

#include "support/files.hpp"
#include "support/mock_gpu.hpp"

namespace ferry::bulk {

inline constexpr char untouched = '#';

// On disk, and dropped from the page cache if the kernel allows it.
inline void make_cold(const std::string& path, std::uint64_t offset = 0, std::uint64_t bytes = 0) {
  const test::Descriptor fd(::open(path.c_str(), O_RDONLY));
  fsync(fd);
  posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

inline EngineOptions by_route(Route route, unsigned workers = 0) {
  return {.workers = workers, .route = route};
}

// A file on a file system with direct I/O, not one in memory.
struct OnDisk {
  const test::ScratchDirectory scratch{test::build_folder()};
  const std::string path = scratch / "file";

  // Writes the file, and returns what it holds.
  std::string made(std::size_t bytes, std::uint64_t seed) const {
    std::string contents = test::pattern(bytes, seed);
    test::write_file(path, contents);
    return contents;
  }
};

// Runs by every route.
struct ByRoute : testing::TestWithParam<Route>, OnDisk {
  Engine engine{
      EngineOptions{.workers = 3, .depth = 3, .task_bytes = 64 << 10, .route = GetParam()}};
};

inline std::string name_of(const testing::TestParamInfo<Route>& info) {
  if (info.param == Route::automatic) return "automatic";
  return info.param == Route::buffered ? "buffered" : "direct";
}

inline const auto every_route = testing::Values(Route::automatic, Route::buffered, Route::direct);

struct GpuFile : test::OnMockGpu, OnDisk {
  // Reads the whole file, which holds this.
  void expect_read(const File& file, const std::string& wanted) const {
    const test::GpuBuffer target(gpu, wanted.size());
    ASSERT_EQ(file.read_at(target.data(), wanted.size(), 0), wanted.size());
    ASSERT_TRUE(test::same_bytes(target.contents(), wanted));
  }
  // Reads ranges of every size at every offset into any address.
  void expect_ranges(const File& file, const std::string& wanted,
                     const std::function<void()>& before_each) const {
    for (const std::size_t bytes : {1UL, 4096UL, 65537UL, 1UL << 20, 3000001UL}) {
      for (const std::size_t offset : {0UL, 1UL, 4096UL, 100001UL, 3145000UL, 4000000UL}) {
        before_each();
        const test::GpuBuffer target(gpu, bytes + 64);
        target.fill(std::string(bytes + 64, untouched));
        const std::size_t at = offset % 2 + 16;
        const std::uint64_t count = file.read_at(inside(target, at), bytes, offset);
        std::string expected(bytes + 64, untouched);
        const std::string there =
            offset < wanted.size() ? wanted.substr(offset, bytes) : std::string();
        expected.replace(at, there.size(), there);
        ASSERT_EQ(count, there.size()) << bytes << " at " << offset;
        ASSERT_TRUE(test::same_bytes(target.contents(), expected));
      }
    }
  }
  // Writes these sizes, and returns what the file holds then.
  std::string write_all(const File& file, const std::vector<std::size_t>& sizes) const {
    std::string wanted;
    for (const std::size_t bytes : sizes) {
      const std::string data = test::pattern(bytes, bytes);
      const test::GpuBuffer source(gpu, bytes);
      source.fill(data);
      const std::size_t offset = wanted.empty() ? 0 : 1001 + bytes;
      EXPECT_EQ(file.write_at(source.data(), bytes, offset), bytes);
      if (wanted.size() < offset + bytes) wanted.resize(offset + bytes);
      wanted.replace(offset, bytes, data);
    }
    return wanted;
  }
  void expect_read_into_managed(const File& file, const std::string& wanted) const {
    const cuda::CurrentContext current(*gpu);
    const cuda::Driver& driver = cuda::Driver::get();
    cuda::DevicePointer managed = 0;
    driver.check(driver.cuMemAllocManaged(&managed, wanted.size(), cuda::managed_attach_global),
                 "");
    auto* data = reinterpret_cast<char*>(managed);
    EXPECT_EQ(file.read_at(data, wanted.size(), 0), wanted.size());
    EXPECT_TRUE(test::same_bytes({data, wanted.size()}, wanted));
    driver.check(driver.cuMemFree(managed), "");
  }
};

}  // namespace ferry::bulk
