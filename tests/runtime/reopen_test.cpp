// What may stay in the page cache when a file is closed or opened again, and what must not.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Placement;
using test::pattern;
using test::read_file;
using test::same_bytes;

// The file system type of `path`, from statfs(2).
long type_of(const std::string& path) {
  struct statfs status {};
  return statfs(path.c_str(), &status) == 0 ? static_cast<long>(status.f_type) : 0;
}

// A mapping of a file's first page, without a descriptor.
void* mapping_of(const std::string& path) {
  const test::Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::system_category(), "mmap " + path);
  return mapped;
}

// Two pages of memory; a system call gets the second only when the test releases it.
class SlowMemory {
 public:
  SlowMemory() {
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
    if (fd_ < 0) return;
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register second{};
    second.range = {address() + page_bytes, page_bytes};
    second.mode = UFFDIO_REGISTER_MODE_MISSING;
    memory_[0] = 0;
    works_ = ioctl(fd_, UFFDIO_API, &api) == 0 && ioctl(fd_, UFFDIO_REGISTER, &second) == 0;
  }
  ~SlowMemory() {
    if (fd_ >= 0) ::close(fd_);
    munmap(memory_, 2 * page_bytes);
  }
  SlowMemory(const SlowMemory&) = delete;
  SlowMemory& operator=(const SlowMemory&) = delete;

  static constexpr std::size_t page_bytes = 4096;
  explicit operator bool() const { return works_; }
  char* data() { return memory_; }
  void give_second_page(const std::string& bytes) {
    uffdio_copy copy{};
    copy.dst = address() + page_bytes;
    copy.src = reinterpret_cast<std::uintptr_t>(bytes.data());
    copy.len = page_bytes;
    if (ioctl(fd_, UFFDIO_COPY, &copy) != 0)
      throw std::system_error(errno, std::system_category(), "UFFDIO_COPY");
  }

 private:
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  char* memory_ = static_cast<char*>(
      mmap(nullptr, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  int fd_ = -1;
  bool works_ = false;
};

class Reopen : public test::OnCachedRuntime {
 protected:
  void SetUp() override {
    runtime = std::make_unique<Runtime>(test::cached_options(256, Placement::compute));
    test::write_file(path, data);
  }
  // Until the file's change time differs from that of a change made now.
  static void let_times_settle() { std::this_thread::sleep_for(std::chrono::milliseconds(150)); }
  static std::string contents(Files& files, int file) {
    return test::read_at(files, file, 20'000, 0);
  }
  std::string look() { return look(path); }
  std::string look(const std::string& name) {
    std::string got;
    on_file(name, O_RDONLY, [&](Files& files, int file) { got = contents(files, file); });
    return got;
  }
  std::uint64_t fills() const { return runtime->statistics().cache.fills; }

  std::string data = pattern(10'000, 1);
};

TEST_F(Reopen, AFileThatNobodyChangedIsStillThere) {
  let_times_settle();
  ASSERT_TRUE(same_bytes(look(), data));
  const std::uint64_t before = fills();
  EXPECT_GT(before, 0U);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(same_bytes(look(), data));
  const long type = type_of(path);
  if (type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC) {
    EXPECT_EQ(fills(), before);
  } else {
    EXPECT_GT(fills(), before) << "nothing proves here that it is the same";
  }
}

// Their change times prove nothing.
TEST_F(Reopen, StoresThroughAMappingAreSeenByTheNextOpen) {
  const test::ScratchDirectory in_memory("/dev/shm");
  for (const std::string& name : {path, in_memory / "f"}) {
    test::write_file(name, data);
    void* mapped = mapping_of(name);
    std::memcpy(mapped, "first", 5);
    let_times_settle();
    EXPECT_EQ(look(name).substr(0, 6), "first" + data.substr(5, 1)) << name;
    std::memcpy(mapped, "again", 5);
    EXPECT_EQ(look(name).substr(0, 6), "again" + data.substr(5, 1)) << name;
    munmap(mapped, 4096);
    EXPECT_EQ(look(name).substr(0, 6), "again" + data.substr(5, 1)) << name;
  }
}

// A mapping that is made and gone between two opens.
TEST_F(Reopen, StoresThroughAShortLivedMappingAreSeenByTheNextOpen) {
  const test::ScratchDirectory in_memory("/dev/shm");
  for (const std::string& name : {path, in_memory / "f"}) {
    test::write_file(name, data);
    let_times_settle();
    ASSERT_TRUE(same_bytes(look(name), data)) << name;
    void* mapped = mapping_of(name);
    // Looked at first, so that tmpfs has the page there before the store.
    ASSERT_EQ(std::memcmp(mapped, data.data(), 4096), 0);
    std::memcpy(mapped, "stored", 6);
    munmap(mapped, 4096);
    EXPECT_EQ(look(name).substr(0, 6), "stored") << name;
  }
}

// The time of change is that of its beginning.
TEST_F(Reopen, ALongWriteIsSeenByTheFirstOpenAfterIt) {
  if (const long type = type_of(path); type != EXT4_SUPER_MAGIC && type != TMPFS_MAGIC)
    GTEST_SKIP() << "reads may wait for the write here";
  SlowMemory source;
  if (!source) GTEST_SKIP() << "no userfaultfd(2) for this process";
  const std::string written = pattern(2 * SlowMemory::page_bytes, 2);
  std::memcpy(source.data(), written.data(), SlowMemory::page_bytes);
  struct stat before {};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  const test::Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  std::int64_t result = 0;
  std::thread writer([&] { result = ::pwrite(fd, source.data(), written.size(), 0); });
  test::within_patience("the beginning of a write", [&] {
    struct stat now = before;
    while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_EQ(::stat(path.c_str(), &now), 0);
    }
  });
  let_times_settle();
  look();
  source.give_second_page(written.substr(SlowMemory::page_bytes));
  writer.join();
  ASSERT_EQ(result, static_cast<std::int64_t>(written.size()));
  data.replace(0, written.size(), written);
  EXPECT_TRUE(same_bytes(look(), data));
}

TEST_F(Reopen, AChangedFileIsReadAgain) {
  let_times_settle();
  ASSERT_TRUE(same_bytes(look(), data));
  // Of the same size, and with its old time of modification.
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  data = pattern(10'000, 2);
  test::write_file(path, data);
  const timespec times[2] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_TRUE(same_bytes(look(), data));
  let_times_settle();
  EXPECT_TRUE(same_bytes(look(), data));
}

TEST_F(Reopen, ChangesInQuickSuccessionAreAllSeen) {
  for (unsigned i = 0; i < 50; ++i) {
    data = pattern(10'000, i);
    test::write_file(path, data);
    ASSERT_TRUE(same_bytes(look(), data)) << i;
  }
}

TEST_F(Reopen, WhatIsDirtySurvivesWhatOthersWroteBesideIt) {
  let_times_settle();
  on_file(path, O_RDWR, [&](Files& files, int file) {
    ASSERT_TRUE(same_bytes(contents(files, file), data));
    ASSERT_EQ(files.pwrite(file, "ours", 4, 100), 4);
    const test::Descriptor other(::open(path.c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(other, "theirs", 6, 200), 6);
    data.replace(100, 4, "ours").replace(200, 6, "theirs");
    const int again = files.open(path.c_str(), O_RDONLY);
    EXPECT_TRUE(same_bytes(contents(files, again), data));
    EXPECT_TRUE(same_bytes(contents(files, file), data)) << "one file, however often it is open";
    EXPECT_EQ(files.close(again), 0);
  });
  EXPECT_TRUE(same_bytes(read_file(path), data));
}

// The size after an append tells that the file had been cut.
TEST_F(Reopen, AnAppendFindsWhatOthersCutOff) {
  for (const std::size_t left : {std::size_t{0}, std::size_t{5000}}) {
    for (const Placement placement : {Placement::host, Placement::compute}) {
      test::write_file(path, data);
      on_file(path, O_RDWR | O_APPEND, [&](Files& files, int file) {
        ASSERT_TRUE(same_bytes(contents(files, file), data));
        ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(left)), 0);
        files.use(placement);
        EXPECT_EQ(files.write(file, "appended", 8), 8);
        files.use(Placement::compute);
        EXPECT_TRUE(same_bytes(contents(files, file), data.substr(0, left) + "appended"));
      });
    }
  }
}

TEST_F(Reopen, ARecordWhosePagesStayedIsGivenToAnotherFile) {
  for (int i = 0; i < 30; ++i)
    test::write_file(path + std::to_string(i), pattern(5000, static_cast<unsigned>(i)));
  let_times_settle();
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 30; ++i)
      ASSERT_TRUE(
          same_bytes(look(path + std::to_string(i)), pattern(5000, static_cast<unsigned>(i))));
}

TEST_F(Reopen, AFileThatTookTheNameOfAnotherIsNotItsPages) {
  let_times_settle();
  ASSERT_TRUE(same_bytes(look(), data));
  for (unsigned i = 0; i < 10; ++i) {
    ASSERT_EQ(unlink(path.c_str()), 0);
    data = pattern(10'000, 10 + i);
    test::write_file(path, data);  // may well get the same inode number
    ASSERT_TRUE(same_bytes(look(), data));
  }
}

TEST_F(Reopen, EvictedPagesAreReadAgainAndNothingIsLost) {
  int closed = 0;
  on_file(path, O_RDWR, [&](Files& files, int file) {
    ASSERT_TRUE(same_bytes(contents(files, file), data));
    ASSERT_EQ(files.pwrite(file, "dirty", 5, 0), 5);
    data.replace(0, 5, "dirty");
    EXPECT_EQ(files.evict(file), 0);
    EXPECT_TRUE(same_bytes(read_file(path), data)) << "written back first";
    const std::uint64_t before = fills();
    EXPECT_TRUE(same_bytes(contents(files, file), data));
    EXPECT_GT(fills(), before);
    closed = file;
  });
  on_file(directory.path(), O_RDONLY | O_DIRECTORY, [&](Files& files, int there) {
    EXPECT_EQ(files.evict(closed), -EBADF);
    EXPECT_EQ(files.evict(there), 0) << "only advice";
  });
}

}  // namespace
}  // namespace ferry
