// The shortcut for small files on queues that may block.
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/posix/posix.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

using test::ScratchDirectory;
using test::write_file;

struct WholeFiles : testing::Test {
  std::int64_t read(const std::string& path, std::size_t room) {
    memory.assign(room, std::byte{0});
    return queue->read_file(path.c_str(), memory);
  }
  std::string_view got(std::int64_t bytes) const {
    return {reinterpret_cast<const char*>(memory.data()), static_cast<std::size_t>(bytes)};
  }

  const ScratchDirectory scratch;
  const std::unique_ptr<Storage> storage = make_posix(Engine::threads);
  std::uint32_t word = 0;
  const std::unique_ptr<Queue> queue = make(true);
  std::vector<std::byte> memory;

  std::unique_ptr<Queue> make(bool may_block) {
    QueueOptions options;
    options.doorbell = Doorbell{&word};
    options.may_block = may_block;
    return storage->make_queue(options);
  }
};

TEST_F(WholeFiles, AreRead) {
  for (const std::size_t bytes : {0U, 1U, 4095U, 4096U, 10000U}) {
    const std::string wanted = test::pattern(bytes, bytes);
    write_file(scratch / "file", wanted);
    const std::int64_t result = read(scratch / "file", 65536);
    ASSERT_EQ(result, static_cast<std::int64_t>(bytes));
    EXPECT_TRUE(test::same_bytes(got(result), wanted));
  }
}

TEST_F(WholeFiles, AreRefusedWhereTheyDoNotFit) {
  write_file(scratch / "file", test::pattern(4096, 1));
  EXPECT_EQ(read(scratch / "file", 100), -EFBIG);
  // One that just fits looks like a longer one.
  EXPECT_EQ(read(scratch / "file", 4096), -EFBIG);
  EXPECT_EQ(read(scratch / "file", 4097), 4096);
  EXPECT_EQ(read(scratch / "file", 0), -EFBIG);
}

TEST_F(WholeFiles, SayWhyNot) {
  EXPECT_EQ(read(scratch / "missing", 100), -ENOENT);
  EXPECT_EQ(read("", 100), -ENOENT);
  EXPECT_EQ(read(scratch.path(), 100), -ENOTSUP);
  // No writer exists: opening it must not wait.
  ASSERT_EQ(mkfifo((scratch / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(read(scratch / "fifo", 100), -ENOTSUP);
  EXPECT_EQ(make(false)->read_file("/", memory), -ENOTSUP);
}

TEST_F(WholeFiles, MaySayThatTheyAreEmptyAndAreNot) {
  const std::int64_t result = read("/proc/self/status", 65536);
  ASSERT_GT(result, 0);
  EXPECT_TRUE(got(result).starts_with("Name:"));
}

TEST_F(WholeFiles, LeaveNoDescriptorOpen) {
  write_file(scratch / "file", "x");
  const auto lowest_free = [] {
    const int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
  };
  const int before = lowest_free();
  for (const char* name : {"file", "missing", "."})
    read(scratch / name, 1);
  EXPECT_EQ(lowest_free(), before);
}

}  // namespace
}  // namespace ferry::storage
