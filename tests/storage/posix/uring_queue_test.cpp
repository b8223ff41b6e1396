// The io_uring engine: its tables of registered files and buffers, also when too small.
#include "storage/posix/uring_queue.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage/posix/file.hpp"
#include "storage/posix/posix.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

using test::AlignedBytes;
using test::pattern;
using test::same_bytes;
using test::ScratchDirectory;
using test::StorageDriver;

class Uring : public testing::Test {
 protected:
  void SetUp() override {
    if (const int error = uring_refused(); error != 0) {
      GTEST_SKIP() << "the kernel refuses io_uring: " << std::strerror(-error);
    }
    storage = make_posix(Engine::io_uring);
    driver = std::make_unique<StorageDriver>(*storage, arena.span(), 16);
  }

  // Reads one page of each file, all in one batch.
  void expect_batch_reads(const std::vector<File*>& files, const std::vector<std::string>& pages) {
    std::vector<Operation> operations(files.size());
    std::vector<iovec> vectors(files.size());
    std::memset(arena.data(), 0, files.size() * 4096);
    for (std::size_t i = 0; i < files.size(); ++i) {
      vectors[i] = iovec{arena.data() + i * 4096, 4096};
      operations[i].kind = Kind::read;
      operations[i].file = files[i];
      operations[i].vectors = {&vectors[i], 1};
      driver->queue().submit(operations[i]);
    }
    driver->queue().flush();
    for (std::size_t i = 0; i < files.size(); ++i)
      EXPECT_EQ(driver->next().result, 4096);
    for (std::size_t i = 0; i < files.size(); ++i)
      EXPECT_TRUE(same_bytes(arena.view(i * 4096, 4096), pages[i])) << "operation " << i;
  }

  ScratchDirectory directory;
  AlignedBytes arena{1 << 20};
  std::unique_ptr<Storage> storage;
  std::unique_ptr<StorageDriver> driver;
};

// More files than the kernel's table can hold, used in one batch: each operation must reach its own
// file, whichever are registered.
TEST_F(Uring, EveryOperationReachesItsOwnFile) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr std::size_t count = 1100;
  if (limit.rlim_cur < count + 50) GTEST_SKIP() << "too few descriptors are allowed";
  std::vector<File*> files;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = directory / std::to_string(i);
    test::write_file(path, pattern(4096, i));
    files.push_back(driver->must_open(path, O_RDONLY));
  }
  test::Random random;
  for (std::uint64_t round = 0; round < test::scaled(400); ++round) {
    std::vector<File*> some;
    std::vector<std::string> pages;
    // Neighbours, files a power of two apart, and any.
    std::size_t index = random.below(count);
    const std::size_t steps[] = {1, 256, 512, 1024, 2 * random.below(count) + 1};
    const std::size_t step = random.pick(steps);
    for (int i = 0; i < 12; ++i) {
      some.push_back(files[index % count]);
      pages.push_back(pattern(4096, index % count));
      index = random.one_in(6) ? random.below(count) : (index + step) % count;
    }
    expect_batch_reads(some, pages);
    if (HasFailure()) break;
  }
  for (File* file : files)
    driver->close(file);
}

// The same with writes, where a mistake destroys data.
TEST_F(Uring, DirectWritesReachTheirOwnFile) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr std::size_t count = 600;
  if (limit.rlim_cur < 2 * count + 50) GTEST_SKIP() << "too few descriptors are allowed";
  std::vector<File*> files;
  for (std::size_t i = 0; i < count; ++i) {
    File* file = nullptr;
    const std::int64_t error =
        driver->open(directory / std::to_string(i), O_RDWR | O_CREAT | O_DIRECT, file);
    if (error == -EINVAL) GTEST_SKIP() << "no direct I/O here";
    ASSERT_EQ(error, 0);
    files.push_back(file);
  }
  std::vector<Operation> operations(8);
  std::vector<iovec> vectors(8);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t index = (i % 2) * 512 + i / 2;  // pairs that are 512 opens apart
    std::memset(arena.data() + i * 4096, static_cast<int>('a' + i), 4096);
    vectors[i] = iovec{arena.data() + i * 4096, 4096};
    operations[i].kind = Kind::write;
    operations[i].file = files[index];
    operations[i].vectors = {&vectors[i], 1};
    driver->queue().submit(operations[i]);
  }
  driver->queue().flush();
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(driver->next().result, 4096);
  for (File* file : files)
    driver->close(file);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t index = (i % 2) * 512 + i / 2;
    EXPECT_TRUE(same_bytes(test::read_file(directory / std::to_string(index)),
                           std::string(4096, static_cast<char>('a' + i))))
        << "file " << index;
  }
}

// More submitted at once than the submission queue has entries.
TEST_F(Uring, TakesMoreThanItsQueueIsDeep) {
  const std::string data = pattern(64 * 4096, 1);
  test::write_file(directory / "f", data);
  File* file = driver->must_open(directory / "f", O_RDONLY);
  const std::vector<File*> files(64, file);
  std::vector<Operation> operations(64);
  std::vector<iovec> vectors(64);
  for (std::size_t i = 0; i < 64; ++i) {
    vectors[i] = iovec{arena.data() + i * 4096, 4096};
    operations[i].kind = Kind::read;
    operations[i].file = file;
    operations[i].offset = static_cast<std::int64_t>(i * 4096);
    operations[i].vectors = {&vectors[i], 1};
    driver->queue().submit(operations[i]);
  }
  driver->queue().flush();
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(driver->next().result, 4096);
  EXPECT_TRUE(same_bytes(arena.view(0, data.size()), data));
  EXPECT_EQ(driver->close(file), 0);
}

// Files of sysfs report one page, and end earlier.
TEST_F(Uring, EndsAreBelievedOnlyWhereTheFileEnds) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << path << " is not there";
  const std::string text = test::read_file(path);
  ASSERT_LT(text.size(), std::filesystem::file_size(path));
  PosixFile file;  // as if it were one that the ring is used for
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file.fd, 0);
  const std::uint64_t before = driver->queue().statistics().pool_operations;
  std::vector<Operation> operations(8);  // so many that they go through the ring
  std::vector<iovec> vectors(8);
  for (std::size_t i = 0; i < 8; ++i) {
    vectors[i] = iovec{arena.data() + i * 4096, 4096};
    operations[i].kind = Kind::read;
    operations[i].file = &file;
    operations[i].vectors = {&vectors[i], 1};
    driver->queue().submit(operations[i]);
  }
  driver->queue().flush();
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(driver->next().result, static_cast<std::int64_t>(text.size()));
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(arena.view(i * 4096, text.size()), text);
  EXPECT_EQ(driver->queue().statistics().pool_operations, before + 8) << "a blocking call tells";
}

// The ring returns -EAGAIN for a transfer that would have to wait and that it cannot make wait,
// also when repeated.
TEST(AfterRing, WhatTheRingCannotDoIsABlockingCall) {
  PosixFile file;
  char memory[100];
  for (const Kind kind : {Kind::read, Kind::write}) {
    for (const int refused : {-EAGAIN, -EINTR}) {
      iovec vector{memory, sizeof memory};
      Operation operation{.kind = kind, .file = &file, .vectors = {&vector, 1}};
      EXPECT_EQ(after_ring(operation, refused), AfterRing::blocking_call);
      EXPECT_EQ(after_ring(operation, 60), AfterRing::ring_again) << "the rest";
      EXPECT_EQ(after_ring(operation, refused), AfterRing::blocking_call);
      EXPECT_EQ(operation.done_bytes, 60) << "which goes on behind what is there";
      EXPECT_EQ(vector.iov_len, 40U);
      EXPECT_EQ(after_ring(operation, -EIO), AfterRing::over);
      EXPECT_EQ(operation.result, 60);
    }
  }
}

TEST_F(Uring, UsesMemoryAtTheEdgesOfTheRegisteredRange) {
  test::write_file(directory / "f", pattern(1 << 16, 1));
  AlignedBytes large(3 * 4096);
  StorageDriver middle(*storage, large.span().subspan(4096, 4096));
  File* file = middle.must_open(directory / "f", O_RDONLY | O_DIRECT);
  // Before, across the start, inside, across the end, behind.
  for (const std::size_t at : std::vector<std::size_t>{0, 2048, 4096, 6144, 8192}) {
    std::memset(large.data(), 0, large.size());
    ASSERT_EQ(middle.pread(file, large.data() + at, 4096, 4096), 4096);
    EXPECT_TRUE(same_bytes(large.view(at, 4096), pattern(1 << 16, 1).substr(4096, 4096))) << at;
  }
  EXPECT_EQ(middle.close(file), 0);
}

// A process that may lock only this much memory. Limits root only without that capability.
class LockedMemory {
 public:
  explicit LockedMemory(rlim_t bytes) {
    getrlimit(RLIMIT_MEMLOCK, &limit_);
    const rlimit lower{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_MEMLOCK, &lower);
    syscall(SYS_capget, &header_, capabilities_);
    __user_cap_data_struct fewer[2] = {capabilities_[0], capabilities_[1]};
    fewer[0].effective &= ~(1U << CAP_IPC_LOCK);
    syscall(SYS_capset, &header_, fewer);
  }
  ~LockedMemory() {
    syscall(SYS_capset, &header_, capabilities_);
    setrlimit(RLIMIT_MEMLOCK, &limit_);
  }
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

 private:
  rlimit limit_{};
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct capabilities_[2] = {};
};

// Registered buffers are locked memory, which may be short: slower, but equivalent.
TEST_F(Uring, WorksWithLittleLockedMemory) {
  AlignedBytes memory(4 << 20);
  const LockedMemory little(512 * 1024);
  const auto poor_storage = make_posix(Engine::automatic);
  StorageDriver poor(*poor_storage, memory.span());
  EXPECT_FALSE(poor_storage->describe().notes.empty()) << "it must say so";
  for (const int direct : {0, O_DIRECT}) {
    File* file = nullptr;
    if (poor.open(directory / "f", O_RDWR | O_CREAT | direct, file) == -EINVAL) continue;
    EXPECT_EQ(poor.pwrite(file, memory.data(), 65536, 0), 65536);
    EXPECT_EQ(poor.pread(file, memory.data(), 65536, 4096), 65536 - 4096);
    EXPECT_EQ(poor.close(file), 0);
  }
}

TEST_F(Uring, WorksWithoutLockedMemory) {
  AlignedBytes memory(1 << 20);
  const LockedMemory none(0);
  const auto poor_storage = make_posix(Engine::automatic);
  StorageDriver poor(*poor_storage, memory.span());
  EXPECT_FALSE(poor_storage->describe().notes.empty()) << "it must say so";
  File* file = poor.must_open(directory / "f", O_RDWR | O_CREAT);
  EXPECT_EQ(poor.pwrite(file, memory.data(), 65536, 0), 65536);
  EXPECT_EQ(poor.close(file), 0);
}

}  // namespace
}  // namespace ferry::storage
