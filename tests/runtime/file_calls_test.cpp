// Every call through a real runtime, compared with system calls on a twin of the file.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"
#include "support/server_rig.hpp"

namespace ferry::file_calls_test {
namespace {

using device::BatchTransfer;
using device::IoVector;
using device::Pending;
using test::Descriptor;
using test::pattern;
using test::plain;
using test::read_at;
using test::read_file;
using test::same_bytes;
using test::write_file;

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr auto offset_max = std::numeric_limits<std::int64_t>::max();

// Each once.
std::set<std::string> records_of(const std::string& all, std::size_t bytes) {
  std::set<std::string> found;
  for (std::size_t at = 0; at < all.size(); at += bytes)
    found.insert(all.substr(at, bytes));
  return found;
}

class FileCallsTest : public test::OnRuntime {
 protected:
  // "ours" and "theirs" start the same.
  void twins(const std::string& bytes) {
    write_file(ours, bytes);
    write_file(theirs, bytes);
  }
  test::ScratchDirectory directory;
  const std::string ours = directory / "ours";
  const std::string theirs = directory / "theirs";
};

// Running `both` once with Ferry's calls and once with plain ones would be neat; but types differ,
// so each test spells out both sides.
TEST_P(FileCallsTest, OpensCreatesTruncatesAndRemoves) {
  write_file(directory / "there", "12345");
  mkdir((directory / "dir").c_str(), 0755);
  ASSERT_EQ(symlink("there", (directory / "link").c_str()), 0);
  const std::string too_long = directory.path() + "/" + std::string(300, 'n');
  const std::string far_too_long(5000, 'n');
  const std::string just_fits = "/" + std::string(4094, '/');
  on_device([&](Files& files) {
    struct Case {
      std::string path;
      int flags;
    };
    for (const Case& one : std::vector<Case>{{directory / "missing", O_RDONLY},
                                             {directory / "there", O_RDONLY},
                                             {directory / "there", O_RDWR | O_CREAT | O_EXCL},
                                             {directory / "there/below", O_RDONLY},
                                             {directory / "dir", O_RDWR},
                                             {directory / "dir", O_RDONLY},
                                             {directory / "link", O_RDONLY | O_NOFOLLOW},
                                             {"", O_RDONLY},
                                             {too_long, O_RDWR | O_CREAT},
                                             {far_too_long, O_RDONLY},
                                             {just_fits, O_RDONLY},
                                             {"/dev/full", O_RDWR}}) {
      const int file = files.open(one.path.c_str(), one.flags, 0644);
      const Descriptor fd(::open(one.path.c_str(), one.flags, 0644));
      EXPECT_EQ(std::min(file, 1), fd >= 0 ? 1 : -errno) << one.path.substr(0, 80);
      if (file > 0) {
        EXPECT_EQ(files.close(file), 0);
      }
    }
    const int made = files.open((directory / "new").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_GT(made, 0);
    EXPECT_EQ(files.close(made), 0);
    EXPECT_EQ(files.open((directory / "new").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), -EEXIST);
    EXPECT_EQ(files.unlink((directory / "new").c_str()), 0);
    EXPECT_EQ(files.unlink((directory / "new").c_str()), -ENOENT);
    EXPECT_EQ(files.unlink((directory / "dir").c_str()), -EISDIR);
    EXPECT_EQ(files.unlink(far_too_long.c_str()), -ENAMETOOLONG);
    const int cut = files.open((directory / "there").c_str(), O_RDWR | O_TRUNC);
    ASSERT_GT(cut, 0);
    EXPECT_EQ(test::file_size(directory / "there"), 0);
    EXPECT_EQ(files.close(cut), 0);
  });
}

TEST_P(FileCallsTest, FilesWithoutANameAreOpenedAsByTheSystemCall) {
  const std::string data = pattern(3 * 4096 + 100, 1);
  for (const std::string& folder :
       {directory.path(), std::string("/dev/shm"), std::string("/proc"), directory / "missing"}) {
    for (const int more : {O_RDWR, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT,
                           O_RDWR | O_DIRECT | O_EXCL, O_RDONLY, O_RDONLY | O_DIRECT}) {
      const int flags = O_TMPFILE | more;
      const std::string what = folder + ", flags " + std::to_string(more);
      const Descriptor fd(::open(folder.c_str(), flags, 0600));
      const int expected = fd >= 0 ? 1 : -errno;
      on_device([&](Files& files) {
        const int file = files.open(folder.c_str(), flags, 0600);
        EXPECT_EQ(std::min(file, 1), expected) << what;
        if (file <= 0) return;
        EXPECT_EQ(files.pwrite(file, data.data(), data.size(), 0), std::ssize(data)) << what;
        if ((more & O_ACCMODE) == O_RDWR) {
          EXPECT_TRUE(same_bytes(read_at(files, file, data.size(), 0), data)) << what;
        }
        EXPECT_EQ(files.fsync(file), 0) << what;
        device::FileStatus status{};
        EXPECT_EQ(files.fstat(file, &status), 0) << what;
        EXPECT_EQ(status.size_bytes, data.size()) << what;
        EXPECT_EQ(status.links, 0U) << what;
        EXPECT_EQ(files.close(file), 0) << what;
      });
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

// Linux truncates by O_TRUNC also where the file is opened for reading only.
TEST_P(FileCallsTest, OpeningForReadingCanTruncate) {
  write_file(ours, "12345");
  on_device([&](Files& files) {
    char byte = 0;
    const int reader = files.open(ours.c_str(), O_RDONLY | O_TRUNC);
    ASSERT_GT(reader, 0);
    EXPECT_EQ(files.pread(reader, &byte, 1, 0), 0);
    EXPECT_EQ(files.pwrite(reader, &byte, 1, 0), -EBADF);
    // Data written by another handle, wherever it is now.
    const int writer = files.open(ours.c_str(), O_RDWR);
    EXPECT_EQ(files.pwrite(writer, "dirty", 5, 0), 5);
    const int again = files.open(ours.c_str(), O_RDONLY | O_TRUNC);
    ASSERT_GT(again, 0);
    for (const int file : {reader, writer, again})
      EXPECT_EQ(files.pread(file, &byte, 1, 0), 0);
    EXPECT_EQ(files.pwrite(writer, "new", 3, 0), 3);
    for (const int file : {reader, writer, again})
      EXPECT_EQ(files.close(file), 0);
  });
  EXPECT_EQ(read_file(ours), "new");
}

TEST_P(FileCallsTest, NullPointersAreErrors) {
  write_file(ours, "abc");
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    EXPECT_EQ(files.open(nullptr, O_RDONLY), -EFAULT);
    EXPECT_EQ(files.unlink(nullptr), -EFAULT);
    device::FileStatus status{};
    EXPECT_EQ(files.stat(nullptr, &status), -EFAULT);
    EXPECT_EQ(files.stat(ours.c_str(), nullptr), -EFAULT);
    EXPECT_EQ(files.fstat(file, nullptr), -EFAULT);
    // Nothing is transferred, so the address does not matter.
    EXPECT_EQ(files.pread(file, nullptr, 0, 0), 0);
    EXPECT_EQ(files.pwrite(file, nullptr, 0, 0), 0);
    EXPECT_EQ(files.read(file, nullptr, 0), 0);
    EXPECT_EQ(files.write(file, nullptr, 0), 0);
    EXPECT_EQ(files.preadv(file, nullptr, 0, 0), 0);
  });
}

// A call never traps.
TEST_P(FileCallsTest, NullBuffersAreErrorsToo) {
  twins("abc");
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    EXPECT_EQ(files.pread(file, nullptr, 3, 0), -EFAULT);
    EXPECT_EQ(files.pwrite(file, nullptr, 3, 0), -EFAULT);
    EXPECT_EQ(files.read(file, nullptr, 3), -EFAULT);
    EXPECT_EQ(files.write(file, nullptr, 3), -EFAULT);
    EXPECT_EQ(files.preadv(file, nullptr, 1, 0), -EFAULT);
    EXPECT_EQ(files.pwritev(file, nullptr, 1, 0), -EFAULT);
    const IoVector piece{nullptr, 3};
    EXPECT_EQ(files.preadv(file, &piece, 1, 0), -EFAULT);
    EXPECT_EQ(files.pwritev(file, &piece, 1, 0), -EFAULT);
    Pending pending = files.pread_async(file, nullptr, 3, 0);
    EXPECT_EQ(files.wait(pending), -EFAULT);
  });
  EXPECT_EQ(read_file(ours), "abc");
}

TEST_P(FileCallsTest, LengthsThatAreNoneAreErrors) {
  twins("abc");
  const Buffer buffer = runtime->allocate(4096);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    char outside[16] = "unchanged";
    for (const std::uint64_t bytes : {std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
      for (void* memory : {buffer.data(), static_cast<void*>(outside)}) {
        EXPECT_EQ(files.pread(file, memory, bytes, 0), -EINVAL);
        EXPECT_EQ(files.pwrite(file, memory, bytes, 0), -EINVAL);
        EXPECT_EQ(files.read(file, memory, bytes), -EINVAL);
        EXPECT_EQ(files.write(file, memory, bytes), -EINVAL);
        const IoVector piece{memory, bytes};
        EXPECT_EQ(files.preadv(file, &piece, 1, 0), -EINVAL);
        EXPECT_EQ(files.pwritev(file, &piece, 1, 0), -EINVAL);
        Pending pending = files.pread_async(file, memory, bytes, 0);
        EXPECT_EQ(files.wait(pending), -EINVAL);
      }
    }
    EXPECT_STREQ(outside, "unchanged");
    EXPECT_EQ(files.read(file, outside, 3), 3);  // the position is where it was
  });
  EXPECT_EQ(read_file(ours), "abc");
}

TEST_P(FileCallsTest, RefusesHandlesThatNameNoFile) {
  twins("abc");
  const Buffer buffer = runtime->allocate(4096);
  on_device([&](Files& files) {
    const int closed = files.open(ours.c_str(), O_RDWR);
    EXPECT_EQ(files.close(closed), 0);
    const int young = files.open(ours.c_str(), O_RDWR);
    for (const int file : {-1, 0, 1, 77, closed, young + 1, std::numeric_limits<int>::max(),
                           std::numeric_limits<int>::min()}) {
      char outside[16];
      device::FileStatus status{};
      const IoVector piece{buffer.data(), 16};
      EXPECT_EQ(files.pread(file, buffer.data(), 16, 0), -EBADF) << file;
      EXPECT_EQ(files.pread(file, outside, 16, 0), -EBADF);
      EXPECT_EQ(files.pwrite(file, buffer.data(), 16, 0), -EBADF);
      EXPECT_EQ(files.pwrite(file, outside, 16, 0), -EBADF);
      EXPECT_EQ(files.preadv(file, &piece, 1, 0), -EBADF);
      EXPECT_EQ(files.pwritev(file, &piece, 1, 0), -EBADF);
      EXPECT_EQ(files.read(file, buffer.data(), 16), -EBADF);
      EXPECT_EQ(files.write(file, outside, 16), -EBADF);
      EXPECT_EQ(files.fsync(file), -EBADF);
      EXPECT_EQ(files.fdatasync(file), -EBADF);
      EXPECT_EQ(files.ftruncate(file, 0), -EBADF);
      EXPECT_EQ(files.fstat(file, &status), -EBADF);
      EXPECT_EQ(files.close(file), -EBADF);
      Pending pending = files.pwrite_async(file, buffer.data(), 16, 0);
      EXPECT_EQ(files.wait(pending), -EBADF);
    }
    EXPECT_EQ(files.close(young), 0);
  });
  EXPECT_EQ(read_file(ours), "abc");
}

TEST_P(FileCallsTest, FailsAsTheSystemCallDoes) {
  twins(pattern(5000, 1));
  const Buffer buffer = runtime->allocate(1 << 20);
  std::vector<char> outside(1 << 20);
  on_device([&](Files& files) {
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
      const int file = files.open(ours.c_str(), flags);
      ASSERT_GT(file, 0);
      const Descriptor fd(::open(theirs.c_str(), flags));
      for (const std::int64_t offset :
           {0L, 4990L, 5000L, 1L << 33, -1L, std::numeric_limits<std::int64_t>::min(), offset_max,
            offset_max - 4095, offset_max - 500'000, 1L << 62}) {
        for (const std::size_t bytes : {0UL, 100UL, 600'000UL}) {
          // One error at a time: which of two wins is unspecified.
          if (flags != O_RDWR && offset != 0) continue;
          const std::int64_t read = plain(::pread(fd, outside.data(), bytes, offset));
          EXPECT_EQ(files.pread(file, buffer.data(), bytes, offset), read)
              << bytes << " at " << offset << " flags " << flags;
          EXPECT_EQ(files.pread(file, outside.data(), bytes, offset), read)
              << bytes << " at " << offset << " flags " << flags << ", staged";
          const iovec theirs_piece{outside.data(), bytes};
          const IoVector ours_piece{buffer.data(), bytes};
          EXPECT_EQ(files.preadv(file, &ours_piece, 1, offset),
                    plain(::preadv(fd, &theirs_piece, 1, offset)));
          if (offset >= 0 && offset < offset_max - 1'000'000 && flags != O_RDONLY) continue;
          const std::int64_t written = plain(::pwrite(fd, outside.data(), bytes, offset));
          EXPECT_EQ(files.pwrite(file, buffer.data(), bytes, offset), written)
              << bytes << " at " << offset << " flags " << flags;
          EXPECT_EQ(files.pwrite(file, outside.data(), bytes, offset), written)
              << bytes << " at " << offset << " flags " << flags << ", staged";
        }
      }
      EXPECT_EQ(files.ftruncate(file, 5000), plain(::ftruncate(fd, 5000)));
      EXPECT_EQ(files.ftruncate(file, -1), plain(::ftruncate(fd, -1)));
      EXPECT_EQ(files.ftruncate(file, offset_max), plain(::ftruncate(fd, offset_max)));
      EXPECT_EQ(files.close(file), 0);
    }
    const int dir = files.open(directory.path().c_str(), O_RDONLY);
    ASSERT_GT(dir, 0);
    EXPECT_EQ(files.pread(dir, buffer.data(), 10, 0), -EISDIR);
    EXPECT_EQ(files.read(dir, outside.data(), 10), -EISDIR);
    EXPECT_EQ(files.close(dir), 0);
  });
  EXPECT_EQ(test::file_size(ours), test::file_size(theirs));
}

TEST_P(FileCallsTest, CountsOfPiecesFailAsInTheSystemCall) {
  twins("0123456789");
  const Buffer buffer = runtime->allocate(4 << 20);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    const Descriptor fd(::open(theirs.c_str(), O_RDWR));
    std::vector<IoVector> pieces(1025, IoVector{buffer.data(), 1});
    std::vector<iovec> their_pieces(1025, iovec{buffer.data(), 1});
    for (const int count : {-1, 0, 1, 1024, 1025}) {
      EXPECT_EQ(files.preadv(file, pieces.data(), count, 0),
                plain(::preadv(fd, their_pieces.data(), count, 0)))
          << count;
    }
    // More in total than one call can move: reads what exists.
    for (std::size_t i = 0; i < 1024; ++i) {
      pieces[i] = IoVector{buffer.data(), buffer.bytes()};
      their_pieces[i] = iovec{buffer.data(), buffer.bytes()};
    }
    EXPECT_EQ(files.preadv(file, pieces.data(), 1024, 0),
              plain(::preadv(fd, their_pieces.data(), 1024, 0)));
  });
}

TEST_P(FileCallsTest, HonoursPermissions) {
  write_file(directory / "secret", "x");
  chmod((directory / "secret").c_str(), 0);
  write_file(directory / "readable", "x");
  chmod((directory / "readable").c_str(), 0444);
  // Threads inherit the permissions of the thread that starts them.
  const bool root = geteuid() == 0;
  if (root) setfsuid(65534);
  make(test::options_of(GetParam()));
  if (runtime != nullptr) {
    on_device([&](Files& files) {
      EXPECT_EQ(files.open((directory / "secret").c_str(), O_RDONLY), -EACCES);
      EXPECT_EQ(files.open((directory / "readable").c_str(), O_RDWR), -EACCES);
      EXPECT_EQ(files.open((directory / "new").c_str(), O_RDWR | O_CREAT, 0644),
                root ? -EACCES : 1 << 16);
      const int file = files.open((directory / "readable").c_str(), O_RDONLY);
      EXPECT_GT(file, 0);
    });
    runtime.reset();
  }
  if (root) setfsuid(0);
}

TEST_P(FileCallsTest, FullDisks) {
  const Buffer buffer = runtime->allocate(1 << 20);
  std::vector<char> outside(300'000);
  on_file("/dev/full", O_RDWR, [&](Files& files, int file) {
    EXPECT_EQ(files.pwrite(file, buffer.data(), 4096, 0), -ENOSPC);
    EXPECT_EQ(files.pwrite(file, outside.data(), outside.size(), 0), -ENOSPC);
    EXPECT_EQ(files.write(file, buffer.data(), 4096), -ENOSPC);
    Pending pending = files.pwrite_async(file, buffer.data(), 4096, 0);
    EXPECT_EQ(files.wait(pending), -ENOSPC);
  });
}

TEST_P(FileCallsTest, ARealFullFileSystem) {
  test::OwnMount own("size=512k");
  if (!own) GTEST_SKIP() << own.why();
  make(test::options_of(GetParam()));
  if (runtime == nullptr) return;
  const Buffer buffer = runtime->allocate(1 << 20);
  std::vector<char> outside(1 << 20);
  on_device([&](Files& files) {
    for (void* memory : {buffer.data(), static_cast<void*>(outside.data())}) {
      const int file = files.open((own / "f").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
      ASSERT_GT(file, 0);
      const std::int64_t fitted = files.pwrite(file, memory, 1 << 20, 0);
      EXPECT_GT(fitted, 0);
      EXPECT_LT(fitted, 1 << 20);
      EXPECT_EQ(files.pwrite(file, memory, 4096, fitted), -ENOSPC);
      EXPECT_EQ(test::file_size(own / "f"), fitted);
      EXPECT_EQ(files.ftruncate(file, 0), 0);
      EXPECT_EQ(files.pwrite(file, memory, 4096, 0), 4096);
      EXPECT_EQ(files.close(file), 0);
    }
  });
}

TEST_P(FileCallsTest, BuffersMayLieAnywhere) {
  const std::string data = pattern(1'000'000, 1);
  twins("");
  const Buffer inside = runtime->allocate(1 << 20);
  std::vector<char> outside(1 << 20);
  std::uint64_t staged = runtime->statistics().staged_calls;
  std::uint64_t staged_bytes = runtime->statistics().staged_bytes;
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    // Sizes around that of the staging area (256 KiB), too.
    for (const std::size_t bytes :
         {1UL, 4096UL, 262'143UL, 262'144UL, 262'145UL, 524'288UL, 1'000'000UL}) {
      for (char* memory : {inside.as<char>(), outside.data() + 1}) {
        std::memcpy(memory, data.data(), bytes);
        const auto count = static_cast<std::int64_t>(bytes);
        EXPECT_EQ(files.pwrite(file, memory, bytes, 77), count);
        std::memset(memory, 0, bytes);
        EXPECT_EQ(files.pread(file, memory, bytes, 77), count);
        EXPECT_TRUE(same_bytes({memory, bytes}, std::string_view(data).substr(0, bytes)));
        const bool arena = memory == inside.as<char>();
        staged += arena ? 0 : 2;
        staged_bytes += arena ? 0 : 2 * bytes;
        const RuntimeStatistics now = runtime->statistics();
        EXPECT_EQ(now.staged_calls, staged);
        EXPECT_EQ(now.staged_bytes, staged_bytes);
        EXPECT_EQ(files.ftruncate(file, 0), 0);
      }
    }
  });
}

TEST_P(FileCallsTest, VectorsMayLieAnywhere) {
  const std::string data = pattern(900'000, 1);
  twins("");
  const Buffer inside = runtime->allocate(1 << 20);
  std::vector<char> outside(1 << 20);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    for (int mix = 0; mix < 3; ++mix) {  // inside, outside, both
      std::vector<IoVector> pieces;
      std::size_t at = 0;
      for (const std::size_t bytes :
           std::vector<std::size_t>{1, 0, 70'000, 300'000, 3, 262'144, 0, 200'000}) {
        const bool arena = mix == 0 || (mix == 2 && pieces.size() % 2 == 0);
        pieces.push_back(IoVector{(arena ? inside.as<char>() : outside.data()) + at, bytes});
        std::memcpy(pieces.back().base, data.data() + at, bytes);
        at += bytes;
      }
      const auto count = static_cast<int>(pieces.size());
      EXPECT_EQ(files.pwritev(file, pieces.data(), count, 5), static_cast<std::int64_t>(at));
      EXPECT_TRUE(same_bytes(std::string_view(read_file(ours)).substr(5),
                             std::string_view(data).substr(0, at)));
      for (const IoVector& piece : pieces)
        std::memset(piece.base, 0, piece.bytes);
      EXPECT_EQ(files.preadv(file, pieces.data(), count, 5), static_cast<std::int64_t>(at));
      std::string got;
      for (const IoVector& piece : pieces)
        got.append(static_cast<const char*>(piece.base), piece.bytes);
      EXPECT_TRUE(same_bytes(got, std::string_view(data).substr(0, at)));
      EXPECT_EQ(files.preadv(file, pieces.data(), count, 5 + static_cast<std::int64_t>(at) - 10),
                10);
      EXPECT_EQ(files.preadv(file, pieces.data(), count, 10'000'000), 0);
      EXPECT_EQ(files.ftruncate(file, 0), 0);
    }
  });
}

TEST_P(FileCallsTest, TellsTheStatus) {
  write_file(ours, pattern(12'345, 1));
  ASSERT_EQ(symlink(ours.c_str(), (directory / "link").c_str()), 0);
  struct stat theirs_status {};
  ASSERT_EQ(stat(ours.c_str(), &theirs_status), 0);
  const Buffer inside = runtime->allocate(sizeof(device::FileStatus));
  on_file(ours, O_RDONLY, [&](Files& files, int file) {
    device::FileStatus outside{};
    auto* arena = inside.as<device::FileStatus>();
    EXPECT_EQ(files.fstat(file, &outside), 0);
    EXPECT_EQ(files.stat((directory / "link").c_str(), arena), 0);
    for (const device::FileStatus& status : {outside, *arena}) {
      EXPECT_EQ(status.size_bytes, 12'345U);
      EXPECT_EQ(status.inode, theirs_status.st_ino);
      EXPECT_EQ(status.mode, theirs_status.st_mode);
      EXPECT_EQ(status.links, theirs_status.st_nlink);
      EXPECT_EQ(status.modified_ns,
                theirs_status.st_mtim.tv_sec * 1'000'000'000LL + theirs_status.st_mtim.tv_nsec);
    }
    EXPECT_EQ(files.stat((directory / "missing").c_str(), &outside), -ENOENT);
    EXPECT_EQ(files.fsync(file), 0);
    EXPECT_EQ(files.fdatasync(file), 0);
  });
}

// Whatever flags earlier calls had.
TEST_P(FileCallsTest, TheStatusOfALinkIsThatOfItsFile) {
  write_file(ours, pattern(12'345, 1));
  const std::string link = directory / "link";
  ASSERT_EQ(symlink(ours.c_str(), link.c_str()), 0);
  on_file(ours, O_RDONLY, [&](Files& files, int /*file*/) {
    EXPECT_EQ(files.open(link.c_str(), O_RDONLY | O_NOFOLLOW), -ELOOP);
    device::FileStatus status{};
    EXPECT_EQ(files.stat(link.c_str(), &status), 0);
    EXPECT_EQ(status.mode & S_IFMT, static_cast<unsigned>(S_IFREG));
    EXPECT_EQ(status.size_bytes, 12'345U);
  });
}

TEST_P(FileCallsTest, ReachesBeyondFourGiB) {
  twins("");
  const Buffer buffer = runtime->allocate(8192);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    for (const std::int64_t offset : {4 * gib - 100, 4 * gib, 9 * gib + 5}) {
      const std::string data = pattern(8192, static_cast<std::uint64_t>(offset));
      EXPECT_EQ(files.pwrite(file, data.data(), 8192, offset), 8192);
      EXPECT_EQ(files.pread(file, buffer.data(), 8192, offset), 8192);
      EXPECT_TRUE(same_bytes({buffer.as<char>(), 8192}, data));
    }
    device::FileStatus status{};
    EXPECT_EQ(files.fstat(file, &status), 0);
    EXPECT_EQ(status.size_bytes, static_cast<std::uint64_t>(9 * gib + 5 + 8192));
    EXPECT_LT(status.allocated_bytes, static_cast<std::uint64_t>(gib));
    EXPECT_EQ(files.ftruncate(file, 20 * gib), 0);
    EXPECT_EQ(files.pread(file, buffer.data(), 8192, 20 * gib - 4096), 4096);
  });
}

TEST_P(FileCallsTest, ThePositionMovesByWhatWasTransferred) {
  const std::string data = pattern(700'000, 1);
  twins(data);
  const Buffer buffer = runtime->allocate(1 << 20);
  std::vector<char> outside(1 << 20);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    const Descriptor fd(::open(theirs.c_str(), O_RDWR));
    test::Random random;
    for (int i = 0; i < 200; ++i) {
      char* memory = random.one_in(2) ? buffer.as<char>() : outside.data();
      const std::size_t bytes = random.one_in(8) ? random.below(400'000) : random.below(9000);
      std::string their_bytes(bytes, '\0');
      if (random.one_in(3)) {
        const std::string fresh = pattern(bytes, random.bits());
        std::memcpy(memory, fresh.data(), bytes);
        ASSERT_EQ(files.write(file, memory, bytes), ::write(fd, fresh.data(), bytes));
      } else {
        const std::int64_t wanted = ::read(fd, their_bytes.data(), bytes);
        ASSERT_EQ(files.read(file, memory, bytes), wanted);
        const auto count = static_cast<std::size_t>(wanted);
        ASSERT_TRUE(same_bytes({memory, count}, {their_bytes.data(), count}));
      }
      // Explicit offsets do not move it.
      if (random.one_in(4)) files.pread(file, memory, 100, 3);
    }
  });
  EXPECT_TRUE(same_bytes(read_file(ours), read_file(theirs)));
}

// Records of one file, claimed by all threads through the shared position.
TEST_P(FileCallsTest, ThreadsShareThePosition) {
  constexpr std::size_t record = 64;
  const std::uint64_t records = test::scaled(8000);
  std::string data;
  for (std::uint64_t i = 0; i < records; ++i) {
    std::string one = std::to_string(i);
    one.resize(record, '.');
    data += one;
  }
  write_file(ours, data);
  std::vector<std::atomic<int>> claimed(records);
  std::atomic<int> file{0};
  std::atomic<int> wrong{0};
  on_device([&](Files& files) { file = files.open(ours.c_str(), O_RDONLY); });
  const Buffer buffers = runtime->allocate(4096);
  on_all([&](DeviceThread& self) {
    char outside[record];
    char* memory = self.index % 2 == 0 ? buffers.as<char>() + self.index * record : outside;
    for (;;) {
      const std::int64_t got = self.files.read(file, memory, record);
      if (got == 0) break;
      if (got != record) {
        ++wrong;
        break;
      }
      const auto index = static_cast<std::size_t>(std::stoul(std::string(memory, record)));
      if (index >= records) {
        ++wrong;
        break;
      }
      ++claimed[index];
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(std::all_of(claimed.begin(), claimed.end(), [](auto& one) { return one == 1; }));
}

TEST_P(FileCallsTest, ThreadsShareThePositionForWriting) {
  constexpr std::size_t record = 50;
  const std::uint64_t rounds = test::scaled(2000);
  write_file(ours, "");
  std::atomic<int> file{0};
  std::atomic<unsigned> threads{0};
  on_device([&](Files& files) { file = files.open(ours.c_str(), O_WRONLY); });
  on_all([&](DeviceThread& self) {
    threads = self.count;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::string data = pattern(record, self.index * 100'000 + i);
      ASSERT_EQ(self.files.write(file, data.data(), record), static_cast<std::int64_t>(record));
    }
  });
  const std::string all = read_file(ours);
  ASSERT_EQ(all.size(), threads * rounds * record);
  const std::set<std::string> seen = records_of(all, record);
  for (unsigned thread = 0; thread < threads; ++thread) {
    for (std::uint64_t i = 0; i < rounds; ++i)
      ASSERT_TRUE(seen.contains(pattern(record, thread * 100'000 + i)));
  }
}

TEST_P(FileCallsTest, AppendedRecordsAllArrive) {
  constexpr std::size_t record = 40;
  const std::uint64_t rounds = test::scaled(2000);
  write_file(ours, "start");
  std::atomic<int> shared{0};
  std::atomic<unsigned> threads{0};
  on_device([&](Files& files) { shared = files.open(ours.c_str(), O_WRONLY | O_APPEND); });
  const Buffer buffers = runtime->allocate(4096);
  on_all([&](DeviceThread& self) {
    threads = self.count;
    const int own = self.files.open(ours.c_str(), O_RDWR | O_APPEND);
    char* memory = buffers.as<char>() + self.index * record;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::string data = pattern(record, self.index * 100'000 + i);
      std::memcpy(memory, data.data(), record);
      // By turns: through a handle of its own and the common one; by write and by pwrite, whose
      // offset does not count here; in the arena and outside.
      const int file = i % 2 == 0 ? own : shared.load();
      const void* from = i % 3 == 0 ? data.data() : memory;
      const std::int64_t written = i % 5 == 0 ? self.files.pwrite(file, from, record, 3)
                                              : self.files.write(file, from, record);
      ASSERT_EQ(written, static_cast<std::int64_t>(record));
    }
    EXPECT_EQ(self.files.close(own), 0);
  });
  const std::string all = read_file(ours);
  ASSERT_EQ(all.size(), 5 + threads * rounds * record);
  EXPECT_EQ(all.substr(0, 5), "start");
  EXPECT_EQ(records_of(all.substr(5), record).size(), threads * rounds);
}

TEST_P(FileCallsTest, AfterAnAppendThePositionIsAtTheEnd) {
  write_file(ours, "0123456789");
  on_file(ours, O_RDWR | O_APPEND, [&](Files& files, int file) {
    char got[16] = {};
    EXPECT_EQ(files.read(file, got, 3), 3);
    EXPECT_EQ(std::string(got, 3), "012");
    EXPECT_EQ(files.write(file, "abc", 3), 3);
    EXPECT_EQ(files.read(file, got, 3), 0) << "behind what was appended";
    const Descriptor other(::open(ours.c_str(), O_WRONLY | O_APPEND));
    EXPECT_EQ(::write(other, "XY", 2), 2);
    EXPECT_EQ(files.read(file, got, 3), 2);
    EXPECT_EQ(std::string(got, 2), "XY");
  });
}

// ---- asynchronous

TEST_P(FileCallsTest, TransfersInFlight) {
  constexpr std::size_t piece = 4096;
  const std::string data = pattern(63 * piece, 1);
  twins("");
  const Buffer buffer = runtime->allocate(64 * piece);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    std::memcpy(buffer.data(), data.data(), data.size());
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 63; ++i) {
      pending.push_back(files.pwrite_async(file, buffer.as<char>() + i * piece, piece,
                                           static_cast<std::int64_t>(i * piece)));
    }
    // All cells except one are taken: asynchronous calls fail, a synchronous one works.
    Pending refused = files.pwrite_async(file, buffer.data(), piece, 0);
    EXPECT_TRUE(refused.finished);
    // With a page cache, asynchronous writes complete immediately.
    EXPECT_EQ(files.wait(refused), GetParam().cache_pages == 0 ? -EAGAIN : std::int64_t{piece});
    EXPECT_EQ(files.ping(), 0);
    for (std::size_t i = 63; i-- > 0;) {
      EXPECT_EQ(files.wait(pending[i]), static_cast<std::int64_t>(piece));
      EXPECT_TRUE(files.ready(pending[i]));
      EXPECT_EQ(files.wait(pending[i]), static_cast<std::int64_t>(piece)) << "asked again";
    }
    EXPECT_TRUE(same_bytes(read_file(ours), data));
    Pending again = files.pread_async(file, buffer.data(), piece, 0);
    EXPECT_EQ(files.wait(again), static_cast<std::int64_t>(piece));
  });
}

TEST_P(FileCallsTest, BatchesTakeAnyMixture) {
  constexpr std::size_t piece = 1000;
  const std::string data = pattern(40 * piece, 1);
  twins(data);
  const Buffer inside = runtime->allocate(40 * piece);
  std::vector<char> outside(40 * piece);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    std::vector<BatchTransfer> transfers;
    for (std::size_t i = 0; i < 40; ++i) {
      char* memory = (i % 3 == 0 ? outside.data() : inside.as<char>()) + i * piece;
      transfers.push_back(BatchTransfer{i == 7 ? -1 : file, memory, piece,
                                        static_cast<std::int64_t>(i == 9 ? 39'500 : i * piece)});
    }
    std::vector<Pending> pending(40);
    files.pread_batch(transfers.data(), 40, pending.data());
    for (std::size_t i = 0; i < 40; ++i) {
      const std::int64_t got = files.wait(pending[i]);
      const std::int64_t wanted = i == 7 ? -EBADF : i == 9 ? 500 : 1000;
      EXPECT_EQ(got, wanted) << i;
      if (got > 0) {
        const auto count = static_cast<std::size_t>(got);
        EXPECT_TRUE(same_bytes(
            {static_cast<char*>(transfers[i].buffer), count},
            std::string_view(data).substr(static_cast<std::size_t>(transfers[i].offset), count)))
            << i;
      }
    }
    files.pread_batch(transfers.data(), 0, pending.data());
  });
}

TEST_P(FileCallsTest, ABatchIsOneSubmission) {
  twins(pattern(16 * 512, 1));
  const Buffer buffer = runtime->allocate(16 * 512);
  on_file(ours, O_RDWR, [&](Files& files, int file) {
    std::vector<BatchTransfer> transfers;
    for (std::size_t i = 0; i < 16; ++i) {
      transfers.push_back(BatchTransfer{file, buffer.as<char>() + i * 512, 512,
                                        static_cast<std::int64_t>(i * 512)});
    }
    for (int round = 0; round < 50; ++round) {
      const RuntimeStatistics before = runtime->statistics();
      Pending pending[16];
      files.pwrite_batch(transfers.data(), 16, pending);
      const RuntimeStatistics after = runtime->statistics();
      EXPECT_EQ(after.calls - before.calls, 16U);
      // Beside a page cache each write keeps cached pages right, one by one, and the server may
      // have fallen asleep between any two of them.
      if (GetParam().cache_pages == 0) {
        EXPECT_EQ(after.batches - before.batches, 1U);
        EXPECT_LE(after.doorbells - before.doorbells, 1U);
      }
      for (Pending& one : pending)
        EXPECT_EQ(files.wait(one), 512);
    }
  });
}

TEST_P(FileCallsTest, TheEndOfAProgramWaitsForItsTransfers) {
  const std::string data = pattern(32 * 65'536, 1);
  twins(data);
  const Buffer buffer = runtime->allocate(data.size());
  for (int round = 0; round < 5; ++round) {
    std::memset(buffer.data(), 0, buffer.bytes());
    std::atomic<int> opened{0};
    on_device([&](Files& files) {
      opened = files.open(ours.c_str(), O_RDONLY | (round % 2 == 0 ? O_DIRECT : 0));
      if (opened == -EINVAL) opened = files.open(ours.c_str(), O_RDONLY);
      for (std::size_t i = 0; i < 32; ++i) {
        files.pread_async(opened, buffer.as<char>() + i * 65'536, 65'536,
                          static_cast<std::int64_t>(i * 65'536));
      }
    });
    EXPECT_TRUE(same_bytes({buffer.as<char>(), data.size()}, data));
    std::memset(buffer.data(), 0x77, buffer.bytes());
    on_device([&](Files& files) { EXPECT_EQ(files.close(opened), 0); });
    EXPECT_TRUE(same_bytes({buffer.as<char>(), data.size()}, std::string(data.size(), 0x77)));
  }
}

// Where they do not, the kernel loses track of a page that both write, and fsync returns -EIO.
TEST_P(FileCallsTest, HandlesWithODirectTakeTurnsWithOthers) {
  constexpr std::uint64_t page = 4096;
  constexpr std::uint64_t pages = 8;
  const test::ScratchDirectory on_disk(test::build_folder());
  const std::string path = on_disk / "f";
  test::write_file(path, std::string(pages * page, '\0'));
  const Buffer buffer = runtime->allocate(runtime->info().device_threads * page);
  on_all([&](DeviceThread& self) {
    const bool direct = self.index % 2 == 0;
    const int file = self.files.open(path.c_str(), O_RDWR | (direct ? O_DIRECT : 0));
    if (direct && file == -EINVAL) return;  // a file system without direct I/O
    ASSERT_GT(file, 0);
    char* memory = buffer.as<char>() + self.index * page;
    for (std::uint64_t round = 0; round < test::scaled(640); ++round) {
      const std::uint64_t bytes = direct ? page : 100;
      const std::uint64_t offset = round * 5 % pages * page;
      ASSERT_EQ(self.files.pwrite(file, memory, bytes, static_cast<std::int64_t>(offset)),
                static_cast<std::int64_t>(bytes));
      if (round % 16 == 0) {
        ASSERT_EQ(self.files.fsync(file), 0);
      }
    }
    ASSERT_EQ(self.files.close(file), 0);
  });
}

TEST_P(FileCallsTest, CloseEndsTransfersOfOtherThreadsFirst) {
  const std::string data = pattern(1 << 20, 1);
  twins(data);
  const Buffer buffer = runtime->allocate(4 << 20);
  std::atomic<int> file{0};
  std::atomic<int> wrong{0};
  for (std::uint64_t round = 0; round < test::scaled(100); ++round) {
    on_device([&](Files& files) { file = files.open(ours.c_str(), O_RDONLY); });
    on_all([&](DeviceThread& self) {
      if (self.index == 0) {
        if (self.files.close(file) != 0) ++wrong;
        return;
      }
      char* memory = buffer.as<char>() + self.index * 65'536;
      for (;;) {
        const std::int64_t got = self.files.pread(file, memory, 65'536, 0);
        if (got == -EBADF) break;
        if (got != 65'536) ++wrong;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FileCallsTest, testing::ValuesIn(test::shapes()),
                         test::shape_name);

}  // namespace
}  // namespace ferry::file_calls_test
