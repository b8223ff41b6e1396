// Failures and their errno.
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "storage/conformance.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

using test::Descriptor;
using test::pattern;
using test::plain;
using test::read_file;
using test::same_bytes;
using test::write_file;

constexpr auto offset_max = std::numeric_limits<std::int64_t>::max();

TEST_P(Conformance, RefusesTheWrongDirection) {
  write_file(path("f"), pattern(8192, 1));
  auto reads = open(at("f"), O_RDONLY);
  EXPECT_EQ(driver->pwrite(reads, arena.data(), 4096, 0), -EBADF);
  EXPECT_EQ(driver->pwrite(reads, arena.data(), 0, 0), -EBADF);
  EXPECT_EQ(driver->transfer(Kind::write, reads,
                             {iovec{arena.data(), 4096}, iovec{arena.data(), 4096}}, 0),
            -EBADF);
  std::uint64_t value = 0;
  EXPECT_EQ(driver->append(reads, arena.data(), 10, value), -EBADF);
  EXPECT_EQ(driver->simple(Kind::truncate, reads, 0), -EINVAL);
  reads.close();
  auto writes = open(at("f"), O_WRONLY);
  EXPECT_EQ(driver->pread(writes, arena.data(), 4096, 0), -EBADF);
  EXPECT_EQ(driver->pread(writes, arena.data(), 0, 0), -EBADF);
  EXPECT_EQ(driver->pread(writes, arena.data(), 100, 3), -EBADF);
  writes.close();
  EXPECT_TRUE(same_bytes(read_file(path("f")), pattern(8192, 1)));
}

TEST_P(Conformance, HugeOffsetsFailAsTheyDoInTheSystemCall) {
  write_file(path("f"), "abc");
  write_file(path("twin"), "abc");
  auto file = open(at("f"), O_RDWR);
  const Descriptor twin(::open(path("twin").c_str(), flags(O_RDWR)));
  for (const std::int64_t offset :
       {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), offset_max, offset_max - 4095,
        (offset_max >> 12) << 12, std::int64_t{1} << 62, std::int64_t{1} << 50}) {
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{0}}) {
      EXPECT_EQ(driver->pread(file, arena.data(), bytes, offset),
                plain(::pread(twin, arena.data(), bytes, offset)))
          << "pread " << bytes << " at " << offset;
      EXPECT_EQ(driver->pwrite(file, arena.data(), bytes, offset),
                plain(::pwrite(twin, arena.data(), bytes, offset)))
          << "pwrite " << bytes << " at " << offset;
    }
  }
  file.close();
  EXPECT_EQ(test::file_size(path("f")), test::file_size(path("twin")));
}

TEST_P(MountedConformance, BadMemoryIsAnErrorNotATrap) {
  write_file(path("f"), pattern(8192, 1));
  const auto file = open(at("f"), O_RDWR);
  auto* nowhere =
      static_cast<char*>(mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(nowhere, MAP_FAILED);
  EXPECT_EQ(driver->pread(file, nowhere, 4096, 0), -EFAULT);
  EXPECT_EQ(driver->pwrite(file, nowhere, 4096, 0), -EFAULT);
  munmap(nowhere, 8192);
}

// As another user: a thread's permissions count, and threads it starts inherit them.
class Unprivileged {
 public:
  Unprivileged() {
    if (geteuid() == 0) setfsuid(65534);
  }
  ~Unprivileged() {
    if (geteuid() == 0) setfsuid(0);
  }
};

TEST_P(Conformance, HonoursPermissions) {
  write_file(path("secret"), pattern(8192, 1));
  chmod(path("secret").c_str(), 0);
  write_file(path("readable"), pattern(8192, 1));
  chmod(path("readable").c_str(), 0444);
  mkdir(path("dir").c_str(), 0755);
  write_file(path("dir/f"), "x");
  chmod(path("dir").c_str(), 0);
  const Unprivileged nobody;
  become_nobody();
  ASSERT_TRUE(make_storage()) << why;  // its threads are nobody's, too
  for (const char* name : {"secret", "readable", "dir/f", "dir/new"}) {
    for (const int wanted : {O_RDONLY, O_WRONLY, O_RDWR | O_CREAT}) {
      const Descriptor fd(::open(path(name).c_str(), flags(wanted), 0644));
      const std::int64_t theirs = fd >= 0 ? 0 : -errno;
      EXPECT_EQ(driver->try_open(at(name), flags(wanted)), theirs) << name << ' ' << wanted;
    }
  }
  EXPECT_EQ(driver->try_open(at("secret"), flags(O_RDONLY)), -EACCES);
  EXPECT_EQ(driver->path_call(Kind::path_status, at("dir/f")), -EACCES);
  EXPECT_EQ(driver->path_call(Kind::unlink, at("dir/f")), -EACCES);
}

// The creator of a file may write it, whatever its mode.
TEST_P(Conformance, CreatesFilesThatNobodyMayOpenAgain) {
  chmod(directory->path().c_str(), 0777);
  const Unprivileged nobody;
  become_nobody();
  ASSERT_TRUE(make_storage()) << why;
  File* file = nullptr;
  ASSERT_EQ(driver->open(at("f"), flags(O_RDWR | O_CREAT | O_EXCL), file, 0400), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 8192, 0), can.rights_at_open ? 8192 : -EACCES);
  EXPECT_EQ(driver->close(file), 0);
}

TEST_P(MountedConformance, ReadOnlyFileSystems) {
  test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  write_file(own / "f", "x");
  ASSERT_TRUE(own.make_read_only()) << std::strerror(errno);
  ASSERT_TRUE(make_storage()) << why;
  EXPECT_EQ(driver->try_open(own / "f", O_RDWR), -EROFS);
  EXPECT_EQ(driver->try_open(own / "new", O_RDWR | O_CREAT), -EROFS);
  EXPECT_EQ(driver->try_open(own / "f", O_RDONLY), 0);
  EXPECT_EQ(driver->path_call(Kind::unlink, own / "f"), -EROFS);
}

TEST_P(MountedConformance, FullFileSystems) {
  test::OwnMount own("size=256k");
  if (!own) GTEST_SKIP() << own.why();
  ASSERT_TRUE(make_storage()) << why;
  // The last write that fits is short, like the system call's; the next fails.
  for (const int append : {0, O_APPEND}) {
    const auto file = must_open(own / "f", O_RDWR | O_CREAT | append);
    const Descriptor twin(::open((own / "twin").c_str(), O_RDWR | O_CREAT | append, 0644));
    std::vector<std::int64_t> ours;
    std::vector<std::int64_t> theirs;
    constexpr std::size_t step = 100'000;
    for (std::size_t i = 0; i < 5; ++i)
      ours.push_back(driver->pwrite(file, arena.data(), step, static_cast<std::int64_t>(i * step)));
    EXPECT_EQ(driver->simple(Kind::truncate, file, 0), 0);
    for (std::size_t i = 0; i < 5; ++i)
      theirs.push_back(plain(::pwrite(twin, arena.data(), step, static_cast<off_t>(i * step))));
    EXPECT_EQ(ftruncate(twin, 0), 0);
    EXPECT_EQ(ours, theirs);
    EXPECT_EQ(ours.back(), -ENOSPC);
    EXPECT_EQ(driver->pwrite(file, arena.data(), step, 0), static_cast<std::int64_t>(step));
    EXPECT_EQ(driver->simple(Kind::truncate, file, 0), 0);
  }
}

TEST_P(MountedConformance, TheDeviceThatIsAlwaysFull) {
  const auto file = must_open("/dev/full", O_RDWR);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 4096, 0), -ENOSPC);
  std::uint64_t value = 0;
  EXPECT_EQ(driver->append(file, arena.data(), 4096, value), -ENOSPC);
  std::memset(arena.data(), 1, 4096);
  EXPECT_TRUE(finds(file, std::string(4096, '\0')));
}

// Files without offsets are not opened, without waiting for a peer.
TEST_P(Conformance, RefusesPipesAndSockets) {
  if (mkfifo(path("fifo").c_str(), 0600) != 0) {
    ASSERT_FALSE(can.full_status) << std::strerror(errno);
    return;  // there are no such files
  }
  // If the storage has no such files, it answers all alike.
  const std::int64_t refused = can.full_status ? -ESPIPE : -ENXIO;
  EXPECT_EQ(driver->try_open(at("fifo"), O_RDONLY), refused);
  EXPECT_EQ(driver->try_open(at("fifo"), O_RDWR), refused);
  const Descriptor listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(driver->try_open(at("socket"), O_RDWR), -ENXIO);
}

TEST_P(MountedConformance, ReadsFromATerminalFailAsPreadDoes) {
  const Descriptor master(posix_openpt(O_RDWR | O_NOCTTY));
  if (master < 0) GTEST_SKIP() << "no terminals here: " << std::strerror(errno);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const std::string name = ptsname(master);
  File* file = nullptr;
  const std::int64_t error = driver->open(name, O_RDWR | O_NOCTTY, file);
  if (error != 0) {
    EXPECT_EQ(error, -ESPIPE);  // refused like a pipe
    return;
  }
  test::DrivenTransfer read(Kind::read, file, arena.data(), 16);
  driver->start(read);
  const bool finished =
      test::eventually([&] { return driver->queue().reap() == &read; }, test::patience / 4);
  EXPECT_TRUE(finished) << "waits for somebody to type";
  if (!finished) {
    driver->queue().cancel(read);
    driver->next();
  }
  EXPECT_EQ(read.result, -ESPIPE);
  EXPECT_EQ(driver->close(file), 0);
}

}  // namespace
}  // namespace ferry::storage
