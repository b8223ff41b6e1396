// Offsets up to the file size limit, with a page cache that can name fewer pages: the host handles
// what is beyond, for any placement, without touching another file.
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/posix/posix.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"

namespace ferry::far_offsets_test {
namespace {

using device::Placement;
using test::pattern;
using test::same_bytes;

constexpr std::uint32_t page = 4096;
constexpr auto limit = static_cast<std::int64_t>(device::cache::pages_max) * page;
constexpr std::int64_t offset_max = 0x7fffffffffffffff;

// An in-memory file of any length.
class SparseFile {
 public:
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  bool is_there() const { return fd_ >= 0; }
  std::string contents(std::size_t bytes, std::int64_t offset) const {
    std::string data(bytes, '?');
    const ssize_t got = ::pread(fd_, data.data(), bytes, offset);
    data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return data;
  }
  std::int64_t size() const {
    struct stat status {};
    return fstat(fd_, &status) == 0 ? status.st_size : -1;
  }

 private:
  const test::Descriptor fd_{memfd_create("ferry-test", MFD_CLOEXEC)};
};

class FarOffsetsTest : public testing::TestWithParam<Placement> {
 protected:
  void SetUp() override {
    rig = std::make_unique<test::ServerRig>(test::small_geometry(1, 2),
                                            storage::make_posix(storage::Engine::threads));
    rig->add_cache({page, 32, 16, 2, 4});
    ASSERT_TRUE(far.is_there() && near.is_there());
    files = std::make_unique<test::Calls>(rig->calls(0, GetParam()));
    far_file = files->open(far.path().c_str(), O_RDWR);
    near_file = files->open(near.path().c_str(), O_RDWR);
    ASSERT_GT(far_file, 0);
    ASSERT_GT(near_file, 0);
    ASSERT_EQ(files->pwrite(near_file, untouched.data(), untouched.size(), 0), 3 * page);
  }
  void TearDown() override {
    EXPECT_TRUE(same_bytes(read(near_file, 4 * page, 0), untouched)) << "another file's bytes";
    EXPECT_EQ(files->close(near_file), 0);
    EXPECT_EQ(files->close(far_file), 0);
    EXPECT_TRUE(same_bytes(near.contents(4 * page, 0), untouched)) << "another file's bytes";
    EXPECT_EQ(cache().shared().dirty_pages, 0U);
    for (std::uint32_t i = 0; i < 16; ++i)
      EXPECT_EQ(cache().inode(i).dirty_pages, 0U) << "record " << i;
  }
  device::cache::View& cache() const { return rig->arena.context().cache; }
  std::string read(int file, std::size_t bytes, std::int64_t offset) const {
    return test::read_at(*files, file, bytes, offset);
  }
  void expect_size(std::int64_t bytes) const {
    device::FileStatus status{};
    EXPECT_EQ(files->fstat(far_file, &status), 0);
    EXPECT_EQ(status.size_bytes, static_cast<std::uint64_t>(bytes));
  }

  SparseFile far;
  SparseFile near;
  const std::string untouched = pattern(3 * page, 9);
  std::unique_ptr<test::ServerRig> rig;
  std::unique_ptr<test::Calls> files;
  int far_file = -1;
  int near_file = -1;
};

TEST_P(FarOffsetsTest, BytesAreWhereTheyWereWritten) {
  std::int64_t end = 0;
  std::uint64_t seed = 0;
  for (const std::int64_t offset :
       {limit - 3 * page, limit - page - 7, limit - 7, limit, limit + page, limit + 3 * page + 5,
        2 * limit, std::int64_t{1} << 60, offset_max - 4 * page}) {
    const std::string data = pattern(page, ++seed);
    ASSERT_EQ(files->pwrite(far_file, data.data(), page, offset), page) << offset;
    end = offset + page;
    EXPECT_TRUE(same_bytes(read(far_file, page, offset), data)) << offset;
    EXPECT_TRUE(same_bytes(read(far_file, 2 * page, end - 10), data.substr(page - 10))) << offset;
    EXPECT_TRUE(same_bytes(read(near_file, 3 * page, 0), untouched)) << offset;
    expect_size(end);
  }
  EXPECT_EQ(read(far_file, 10, offset_max - 10), "");
  const char byte = 'x';
  EXPECT_EQ(files->pwrite(far_file, &byte, 1, offset_max), -EINVAL);
  ASSERT_EQ(files->fsync(far_file), 0);
  EXPECT_EQ(far.size(), end);
  EXPECT_TRUE(same_bytes(far.contents(page, offset_max - 4 * page), pattern(page, seed)));
}

TEST_P(FarOffsetsTest, ATransferMayGoOnBehindTheLastPage) {
  const std::string data = pattern(6 * page, 1);
  ASSERT_EQ(files->pwrite(far_file, data.data(), data.size(), limit - 2 * page - 5), 6 * page);
  EXPECT_TRUE(same_bytes(read(far_file, data.size(), limit - 2 * page - 5), data));
  // Both sides of the limit, dirty on the near one.
  ASSERT_EQ(files->pwrite(far_file, "hello", 5, limit - 5), 5);
  std::string model = data;
  model.replace(2 * page, 5, "hello");
  EXPECT_TRUE(same_bytes(read(far_file, data.size(), limit - 2 * page - 5), model));
  std::vector<char> first(2 * page);
  std::vector<char> second(page);
  const device::IoVector pieces[] = {{first.data(), first.size()}, {second.data(), second.size()}};
  EXPECT_EQ(files->preadv(far_file, pieces, 2, limit - page), 3 * page);
  EXPECT_EQ(std::string(first.data(), first.size()) + std::string(second.data(), second.size()),
            model.substr(page + 5, 3 * page));
  ASSERT_EQ(files->fsync(far_file), 0);
  EXPECT_TRUE(same_bytes(far.contents(data.size(), limit - 2 * page - 5), model));
}

TEST_P(FarOffsetsTest, FilesAreCutAndAppendedTo) {
  ASSERT_EQ(files->ftruncate(far_file, 3 * limit), 0);
  expect_size(3 * limit);
  ASSERT_EQ(files->pwrite(far_file, "hello", 5, 10), 5);
  EXPECT_EQ(read(far_file, 5, 10), "hello");
  EXPECT_EQ(read(far_file, 3, 3 * limit - 3), std::string(3, '\0'));
  const int log = files->open(far.path().c_str(), O_WRONLY | O_APPEND);
  ASSERT_GT(log, 0);
  ASSERT_EQ(files->write(log, "more", 4), 4);
  EXPECT_EQ(files->close(log), 0);
  expect_size(3 * limit + 4);
  EXPECT_EQ(read(far_file, 10, 3 * limit), "more");
  EXPECT_EQ(read(far_file, 5, 10), "hello");
  ASSERT_EQ(files->ftruncate(far_file, 12), 0);
  expect_size(12);
  EXPECT_EQ(read(far_file, 10, 10), "he");
  EXPECT_EQ(read(far_file, 10, limit), "");
}

TEST_P(FarOffsetsTest, NoPageShowsWhatLiesBehindTheLastOne) {
  device::cache::PinnedView view;
  EXPECT_EQ(files->hold(far_file, limit, 10, view), 0) << "the end of the file";
  ASSERT_EQ(files->ftruncate(far_file, limit + 10), 0);
  EXPECT_EQ(files->hold(far_file, limit, 10, view), -EOPNOTSUPP);
  EXPECT_EQ(files->hold(far_file, limit - 10, 10, view), 10);
  files->release(view);
  EXPECT_EQ(files->prefetch(far_file, limit - page, 3 * page), 0);
  EXPECT_EQ(files->prefetch(far_file, 2 * limit, page), 0);
  EXPECT_EQ(read(far_file, 20, limit), std::string(10, '\0'));
}

std::string name_of(const testing::TestParamInfo<Placement>& info) {
  const char* names[] = {"host", "compute", "service", "automatic"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Placements, FarOffsetsTest,
                         testing::Values(Placement::host, Placement::compute, Placement::automatic),
                         name_of);

}  // namespace
}  // namespace ferry::far_offsets_test
