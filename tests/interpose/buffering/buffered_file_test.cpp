#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/buffered_file.hpp>
#include <ferry/error.hpp>

#include "interpose/extents.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry {
namespace {

using test::pattern;
using test::same_bytes;

// An in-memory file that can fail, and records requests.
class MemoryFile : public ByteFile {
 public:
  struct Request {
    bool writes;
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    if (read_error != 0) return -read_error;
    requests.push_back({false, offset, bytes});
    if (offset >= contents.size()) return 0;
    bytes = std::min<std::uint64_t>(bytes, contents.size() - offset);
    std::memcpy(data, contents.data() + offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    if (write_error != 0) return -write_error;
    requests.push_back({true, offset, bytes});
    if (contents.size() < offset + bytes) contents.resize(offset + bytes);
    std::memcpy(contents.data() + offset, data, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t size_bytes() override { return static_cast<std::int64_t>(contents.size()); }
  int resize(std::uint64_t size_bytes) override {
    contents.resize(size_bytes);
    return 0;
  }

  std::string contents;
  std::vector<Request> requests;
  int read_error = 0;
  int write_error = 0;
};

constexpr BufferOptions small{8192, 3};

TEST(Extents, JoinsWhatTouches) {
  Extents extents;
  extents.add(10, 20);
  extents.add(30, 40);
  extents.add(25, 26);
  extents.add(5, 5);
  EXPECT_EQ(extents.size(), 3U);
  EXPECT_TRUE(extents.covers(12, 20));
  EXPECT_FALSE(extents.covers(12, 21));
  extents.add(20, 25);
  EXPECT_EQ(extents.all(), (std::vector<Extents::Extent>{{10, 26}, {30, 40}}));
  extents.add(0, 100);
  EXPECT_EQ(extents.all(), (std::vector<Extents::Extent>{{0, 100}}));
}

TEST(BufferedFile, SmallSequentialWritesBecomeLargeAlignedOnes) {
  MemoryFile below;
  const std::string data = pattern(50'000, 1);
  {
    BufferedFile file(below, small);
    for (std::size_t at = 0; at < data.size(); at += 100)
      ASSERT_EQ(file.pwrite(data.data() + at, 100, at), 100);
    EXPECT_EQ(file.size_bytes(), 50'000);
    EXPECT_EQ(file.flush(), 0);
    const BufferStatistics counts = file.statistics();
    EXPECT_EQ(counts.writes, 500U);
    EXPECT_EQ(counts.written_bytes, 50'000U);
    EXPECT_EQ(counts.requests_written, 7U);
    EXPECT_EQ(counts.request_written_bytes, 50'000U);
    EXPECT_EQ(counts.requests_read, 0U);
  }
  EXPECT_TRUE(same_bytes(below.contents, data));
  for (const MemoryFile::Request& request : below.requests)
    EXPECT_EQ(request.offset % small.buffer_bytes, 0U);
}

TEST(BufferedFile, StridedReadsBecomeLargeAlignedOnes) {
  MemoryFile below;
  below.contents = pattern(50'000, 2);
  BufferedFile file(below, small);
  for (std::size_t at = 0; at + 10 <= below.contents.size(); at += 300) {
    char got[10];
    ASSERT_EQ(file.pread(got, 10, at), 10);
    ASSERT_EQ(std::memcmp(got, below.contents.data() + at, 10), 0);
  }
  EXPECT_EQ(file.statistics().requests_read, 7U);
}

TEST(BufferedFile, WritesNoByteThatWasNotPassed) {
  MemoryFile below;
  below.contents = std::string(20'000, '.');
  BufferedFile file(below, small);
  for (std::uint64_t at = 5; at < 20'000; at += 1000)
    ASSERT_EQ(file.pwrite("xyz", 3, at), 3);
  std::string wanted = below.contents;
  for (std::size_t at = 5; at < 20'000; at += 1000)
    wanted.replace(at, 3, "xyz");
  // Another process writes in between.
  below.contents[500] = wanted[500] = 'o';
  EXPECT_EQ(file.flush(), 0);
  EXPECT_TRUE(same_bytes(below.contents, wanted));
  for (const MemoryFile::Request& request : below.requests)
    EXPECT_EQ(request.bytes, 3U);
}

TEST(BufferedFile, AnErrorIsToldAndNothingIsLost) {
  MemoryFile below;
  const std::string data = pattern(30'000, 3);
  BufferedFile file(below, {4096, 2});
  below.write_error = ENOSPC;
  std::uint64_t at = 0;
  std::int64_t moved = 0;
  while ((moved = file.pwrite(data.data() + at, 1000, at)) > 0)
    at += static_cast<std::uint64_t>(moved);
  EXPECT_EQ(moved, -ENOSPC);
  EXPECT_EQ(at, 8192U);  // two buffers
  EXPECT_EQ(file.flush(), ENOSPC);
  EXPECT_TRUE(file.is_dirty());
  below.write_error = 0;
  while (at < data.size()) {
    moved = file.pwrite(data.data() + at, std::min<std::uint64_t>(1000, data.size() - at), at);
    ASSERT_GT(moved, 0);
    at += static_cast<std::uint64_t>(moved);
  }
  EXPECT_EQ(file.flush(), 0);
  EXPECT_FALSE(file.is_dirty());
  EXPECT_TRUE(same_bytes(below.contents, data));
  below.read_error = EIO;
  char got = 0;
  EXPECT_EQ(file.drop(), 0);
  EXPECT_EQ(file.pread(&got, 1, 0), -EIO);
}

TEST(BufferedFile, SeesTheFileGrowAndDropsWhatItRead) {
  MemoryFile below;
  below.contents = "abc";
  BufferedFile file(below, small);
  char got[8] = {};
  EXPECT_EQ(file.pread(got, 8, 0), 3);
  below.contents = "abcdef";
  EXPECT_EQ(file.pread(got, 8, 0), 6);
  EXPECT_EQ(std::string(got, 6), "abcdef");
  below.contents = "ABCDEF";
  EXPECT_EQ(file.pread(got, 6, 0), 6);
  EXPECT_EQ(std::string(got, 6), "abcdef");
  EXPECT_EQ(file.drop(), 0);
  EXPECT_EQ(file.pread(got, 6, 0), 6);
  EXPECT_EQ(std::string(got, 6), "ABCDEF");
  EXPECT_EQ(file.pread(got, 1, 6), 0);
  file.pwrite("x", 1, 0);
  file.discard();
  EXPECT_EQ(file.flush(), 0);
  EXPECT_EQ(below.contents, "ABCDEF");
}

TEST(BufferedFile, RefusesWhatMakesNoSense) {
  MemoryFile below;
  for (const BufferOptions& options : {BufferOptions{0, 1}, {4096, 0}, {5000, 1}}) {
    EXPECT_THROW(BufferedFile(below, options), Error);
  }
  BufferedFile file(below, small);
  char byte = 0;
  EXPECT_EQ(file.pread(&byte, 1, ~std::uint64_t{0}), -EINVAL);
  EXPECT_EQ(file.pwrite(&byte, 1, ~std::uint64_t{0}), -EFBIG);
}

// Any calls act as on a plain string, also behind the end and through a descriptor.
TEST(BufferedFile, RandomCalls) {
  test::Random random;
  const test::ScratchDirectory directory;
  for (std::uint64_t round = 0; round < test::scaled(40); ++round) {
    const test::Descriptor descriptor(
        open((directory / "file").c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600));
    DescriptorFile below(descriptor);
    BufferedFile file(below,
                      {4096 * random.between(1, 3), static_cast<unsigned>(random.between(1, 4))});
    std::string model;
    for (int call = 0; call < 400; ++call) {
      const std::uint64_t offset = random.below(60'000);
      const std::uint64_t bytes = random.one_in(8) ? random.below(30'000) : random.below(700);
      if (random.one_in(60)) {
        ASSERT_EQ(file.resize(offset), 0);
        model.resize(offset);
      } else if (random.one_in(40)) {
        ASSERT_EQ(random.one_in(2) ? file.flush() : file.drop(), 0);
      } else if (random.one_in(2)) {
        const std::string data = pattern(bytes, random.bits());
        ASSERT_EQ(file.pwrite(data.data(), bytes, offset), static_cast<std::int64_t>(bytes));
        if (bytes > 0 && model.size() < offset + bytes) model.resize(offset + bytes);
        if (bytes > 0) model.replace(offset, bytes, data);
      } else {
        std::string got(bytes, '#');
        const std::string wanted = offset < model.size() ? model.substr(offset, bytes) : "";
        ASSERT_EQ(file.pread(got.data(), bytes, offset), static_cast<std::int64_t>(wanted.size()));
        ASSERT_TRUE(same_bytes(got.substr(0, wanted.size()), wanted));
      }
      ASSERT_EQ(file.size_bytes(), static_cast<std::int64_t>(model.size()));
    }
    ASSERT_EQ(file.flush(), 0);
    ASSERT_TRUE(same_bytes(test::read_file(directory / "file"), model));
  }
}

}  // namespace
}  // namespace ferry
