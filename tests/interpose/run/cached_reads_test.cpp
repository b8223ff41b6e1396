// Descriptors that become other files while threads read: with a client of ferryd that serves from
// a table of this test, and tells when it is handed a record of which no file was ever made.
#include "interpose/cached_reads.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/serving_settings.hpp"
#include "support/files.hpp"

namespace {

std::atomic<int> offers{0};
std::atomic<int> answer{0};        // of offers: an errno
std::atomic<bool> forgets{false};  // reads are answered with `gone`
std::atomic<bool> misses{false};
std::atomic<std::uint64_t> torn{0};  // records that are mixtures

// What a file holds at its position, by the cache and by the kernel.
struct Record {
  std::uint64_t inode = 0;
  std::uint64_t offset = 0;
};
constexpr std::size_t records = 3000;

}  // namespace

namespace ferry::daemon {

// A record holds the file's inode number three times, and a number that never repeats.
Client::Client(const char*) : path_{} {}

int Client::offer(int descriptor, ServedFile& file) {
  const int number = offers.fetch_add(1) + 1;
  if (answer != 0) return answer;
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return errno;
  const auto inode = static_cast<std::uint32_t>(status.st_ino);
  file.inode = inode;
  file.entry = static_cast<std::uint32_t>(number);
  file.mark = std::uint64_t{inode} << 32 | static_cast<std::uint32_t>(number);
  return 0;
}

// The "content" of a file is its inode number, with the offset behind it where there is room.
std::int64_t Client::pread(const ServedFile& file, void* to, std::uint64_t bytes,
                           std::uint64_t offset) {
  if (file.mark != (std::uint64_t{file.inode} << 32 | file.entry)) torn.fetch_add(1);
  errno = EIO;  // the caller must not see it
  if (forgets) return gone;
  if (misses) return missed;
  std::memset(to, 0, bytes);
  if (bytes >= sizeof file.inode) std::memcpy(to, &file.inode, sizeof file.inode);
  if (bytes == sizeof(Record)) {
    if (offset >= records * sizeof(Record)) return 0;
    static_cast<Record*>(to)->offset = offset;
  }
  return static_cast<std::int64_t>(bytes);
}

std::int64_t Client::size_bytes(const ServedFile&) const {
  return forgets ? gone : static_cast<std::int64_t>(records * sizeof(Record));
}

}  // namespace ferry::daemon

namespace {

using ferry::run::CachedReads;
using ferry::run::DescriptorChange;

class CachedReadsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("FERRY_RUN_SOCKET", "/made/up", 1);
    CachedReads::instance().start();
  }
  CachedReadsTest() {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      paths_[i] = directory_ / ("file" + std::to_string(i));
      descriptors_[i] = open(paths_[i].c_str(), O_RDWR | O_CREAT, 0600);
      struct stat status {};
      fstat(descriptors_[i], &status);
      inodes_[i] = static_cast<std::uint32_t>(status.st_ino);
    }
    offers = 0;
    answer = 0;
    forgets = false;
    misses = false;
    torn = 0;
  }
  ~CachedReadsTest() override {
    for (const int descriptor : descriptors_)
      close(descriptor);
  }
  CachedReadsTest(const CachedReadsTest&) = delete;
  CachedReadsTest& operator=(const CachedReadsTest&) = delete;

  int open_file(std::size_t which, int flags = O_RDONLY) {
    const int descriptor = open(paths_[which].c_str(), flags);
    CachedReads::instance().opened(descriptor, flags);
    return descriptor;
  }
  static void close_file(int descriptor) {
    const DescriptorChange change(descriptor);
    close(descriptor);
  }
  // Which inode the cache says, or 0 if the kernel makes the call.
  static std::uint32_t read_inode(int descriptor) {
    std::uint32_t inode = 0;
    const ssize_t got = CachedReads::instance().pread(descriptor, &inode, sizeof inode, 0);
    return got == sizeof inode ? inode : 0;
  }
  static int reads_until_served(int descriptor) {
    for (int i = 1; i < 3000; ++i)
      if (read_inode(descriptor) != 0) return i;
    return -1;
  }

  ferry::test::ScratchDirectory directory_{ferry::test::build_folder()};
  std::array<std::string, 2> paths_;
  std::array<int, 2> descriptors_{};
  std::array<std::uint32_t, 2> inodes_{};
};

TEST(ServingSettings, WhichFilesAreTaken) {
  using ferry::run::ServingSettings;
  const ServingSettings all;
  for (const char* path : {"/data/x", "/home/me/usr/x", "/usrx", "/tmp/x (deleted)"})
    EXPECT_TRUE(all.takes(path)) << path;
  for (const char* path : {"/usr/x", "/lib64/x", "/etc/passwd", "/proc/1/io", "/dev/zero", "/run/x",
                           "pipe:[1]", "anon_inode:[eventfd]", ""})
    EXPECT_FALSE(all.takes(path)) << path;

  const ferry::test::ScratchDirectory directory;
  const std::string real = std::filesystem::canonical(directory.path()).string();
  ASSERT_EQ(symlink(real.c_str(), (directory / "link").c_str()), 0);
  ServingSettings some;
  some.read_map("/data//:::/usr/share/models:relative:" + (directory / "link"));
  EXPECT_NE(some.error.find("'relative'"), std::string::npos);
  for (const std::string& path : {std::string("/data/x"), std::string("/data"),
                                  std::string("/usr/share/models/a/b"), real + "/x"})
    EXPECT_TRUE(some.takes(path.c_str())) << path;
  for (const char* path : {"/database", "/usr/share/x", "/home/x", "data/x"})
    EXPECT_FALSE(some.takes(path)) << path;
  ServingSettings everything;
  everything.read_map("/");
  EXPECT_TRUE(everything.takes("/etc/passwd"));
  ServingSettings nothing;
  nothing.read_map("relative");
  EXPECT_FALSE(nothing.takes("/data/x"));
}

TEST_F(CachedReadsTest, TheThirdReadIsOffered) {
  const int descriptor = open_file(0);
  errno = 7;
  EXPECT_EQ(read_inode(descriptor), 0U);
  EXPECT_EQ(read_inode(descriptor), 0U);
  EXPECT_EQ(offers, 0);
  EXPECT_EQ(read_inode(descriptor), inodes_[0]);
  EXPECT_EQ(read_inode(descriptor), inodes_[0]);
  EXPECT_EQ(offers, 1);
  EXPECT_EQ(errno, 7);
  misses = true;
  EXPECT_EQ(read_inode(descriptor), 0U);
  misses = false;
  EXPECT_EQ(read_inode(descriptor), inodes_[0]);
  EXPECT_EQ(errno, 7);
  close_file(descriptor);
  EXPECT_EQ(read_inode(descriptor), 0U);
}

TEST_F(CachedReadsTest, RefusedFilesAreAskedForAsSeldomAsItHelps) {
  int descriptor = open_file(0);
  answer = EBUSY;
  EXPECT_EQ(reads_until_served(descriptor), -1);  // 2999 reads
  EXPECT_EQ(offers, 3);
  answer = 0;
  EXPECT_LE(reads_until_served(descriptor), 1001);
  close_file(descriptor);
  for (const auto& [error, asked] :
       {std::pair{EOPNOTSUPP, 1}, {ENOMEM, 1}, {ENOTCONN, 3}, {ETIMEDOUT, 3}}) {
    descriptor = open_file(0);
    answer = error;
    offers = 0;
    EXPECT_EQ(reads_until_served(descriptor), -1);
    EXPECT_EQ(offers, asked);
    close_file(descriptor);
  }
  answer = 0;
  descriptor = open_file(0);
  EXPECT_EQ(reads_until_served(descriptor), 3);
  forgets = true;
  EXPECT_EQ(read_inode(descriptor), 0U);
  forgets = false;
  EXPECT_EQ(reads_until_served(descriptor), 3);  // from zero
  close_file(descriptor);
}

TEST_F(CachedReadsTest, OnlyRegularFilesThatAreOpenForReading) {
  for (const int flags : {O_RDWR, O_WRONLY, O_RDONLY | O_PATH}) {
    const int descriptor = open_file(0, flags);
    EXPECT_EQ(reads_until_served(descriptor), -1);
    close_file(descriptor);
  }
  // Whatever it was said to be.
  CachedReads::instance().opened(descriptors_[0], O_RDONLY);
  EXPECT_EQ(reads_until_served(descriptors_[0]), -1);
  const int folder = open(directory_.path().c_str(), O_RDONLY);
  CachedReads::instance().opened(folder, O_RDONLY);
  EXPECT_EQ(reads_until_served(folder), -1);
  close_file(folder);
  const int system = open("/etc/passwd", O_RDONLY);
  CachedReads::instance().opened(system, O_RDONLY);
  EXPECT_EQ(reads_until_served(system), -1);
  close_file(system);
  EXPECT_EQ(offers, 0);
  EXPECT_EQ(read_inode(-1), 0U);
  EXPECT_EQ(read_inode(70'000), 0U);
  CachedReads::instance().opened(70'000, O_RDONLY);
}

TEST_F(CachedReadsTest, WhatTheKernelRefusesIsLeftToIt) {
  const int descriptor = open_file(0);
  EXPECT_EQ(reads_until_served(descriptor), 3);
  CachedReads& reads = CachedReads::instance();
  std::array<char, 8> data{};
  EXPECT_EQ(reads.pread(descriptor, data.data(), 8, -1), -1);
  EXPECT_EQ(reads.pread(descriptor, data.data(), 0, 0), -1);
  EXPECT_EQ(reads.pread(descriptor, data.data(), 8, std::numeric_limits<off_t>::max() - 7), -1);
  EXPECT_EQ(reads.pread(descriptor, data.data(), 8, std::numeric_limits<off_t>::max() - 8), 8);
  EXPECT_EQ(reads.pread(descriptor, data.data(), ~std::size_t{0}, 0), -1);
  const iovec one{data.data(), data.size()};
  EXPECT_EQ(reads.preadv(descriptor, &one, 0, 0), -1);
  EXPECT_EQ(reads.preadv(descriptor, &one, -1, 0), -1);
  EXPECT_EQ(reads.preadv(descriptor, &one, 1025, 0), -1);
  EXPECT_EQ(reads.preadv(descriptor, &one, 1, 0), 8);
  close_file(descriptor);
}

TEST_F(CachedReadsTest, NothingIsOfferedWhileANumberChangesHands) {
  const int descriptor = open_file(0);
  EXPECT_EQ(reads_until_served(descriptor), 3);
  {
    const DescriptorChange change(descriptor);
    EXPECT_EQ(reads_until_served(descriptor), -1);
    dup2(descriptors_[1], descriptor);
  }
  EXPECT_EQ(reads_until_served(descriptor), -1);  // it is open for writing, too
  close_file(descriptor);
}

// Readers of a number under which dup2 puts one file or the other. The thread that does so reads
// the new one at once, and no thread ever mixes records.
TEST_F(CachedReadsTest, ANumberIsNeverTakenForAnotherFile) {
  const std::array<int, 2> files{open(paths_[0].c_str(), O_RDONLY),
                                 open(paths_[1].c_str(), O_RDONLY)};
  const int number = open_file(0);
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!ends) {
        const std::uint32_t inode = read_inode(number);
        if (inode != 0 && inode != inodes_[0] && inode != inodes_[1]) ++wrong;
      }
    });
  }
  int served = 0;
  for (unsigned turn = 0; turn < 4000; ++turn) {
    const std::size_t which = turn / 3 % 2;
    {
      const DescriptorChange change(number);
      ASSERT_EQ(dup2(files[which], number), number);
    }
    for (int look = 0; look < 8; ++look) {
      const std::uint32_t inode = read_inode(number);
      if (inode == 0) continue;
      ++served;
      ASSERT_EQ(inode, inodes_[which]) << "turn " << turn;
    }
    forgets = turn % 50 == 0;
  }
  ends = true;
  for (std::thread& reader : readers)
    reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(torn, 0U);
  EXPECT_GT(served, 0);
  close_file(number);
  close(files[0]);
  close(files[1]);
}

std::atomic<int> read_by_handler{-1};
std::atomic<std::uint32_t> seen_by_handler{0};

TEST_F(CachedReadsTest, HandlersReadWhateverTheyInterrupt) {
  const int descriptor = open_file(0);
  read_by_handler = descriptor;
  struct sigaction action {};
  action.sa_handler = [](int) {
    std::uint32_t inode = 0;
    if (CachedReads::instance().pread(read_by_handler, &inode, sizeof inode, 0) > 0)
      seen_by_handler = inode;
  };
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> ends{false};
  const pthread_t self = pthread_self();
  std::thread sender([&] {
    while (!ends)
      pthread_kill(self, SIGUSR1);
  });
  for (int i = 0; i < 20'000 || (seen_by_handler == 0 && i < 50'000'000); ++i) {
    const std::uint32_t inode = read_inode(descriptor);
    ASSERT_TRUE(inode == 0 || inode == inodes_[0]);
    if (i % 10 == 9) {  // offered again and again, so that handlers come in the middle
      const DescriptorChange change(descriptor);
    }
  }
  ends = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(seen_by_handler, inodes_[0]);
  EXPECT_GT(reads_until_served(descriptor), 0);
  close_file(descriptor);
}

// ---- the position ------------------------------------------------------------------------------

class PositionTest : public CachedReadsTest {
 protected:
  PositionTest() {
    std::vector<Record> all(records);
    for (std::size_t i = 0; i < records; ++i)
      all[i] = {inodes_[0], i * sizeof(Record)};
    EXPECT_EQ(write(descriptors_[0], all.data(), records * sizeof(Record)),
              static_cast<ssize_t>(records * sizeof(Record)));
  }
  static ssize_t read_record(int descriptor, Record& record) {
    CachedReads& reads = CachedReads::instance();
    const iovec one{&record, sizeof record};
    if (!reads.may_serve(descriptor)) return read(descriptor, &record, sizeof record);
    return reads.read(
        descriptor, &one, 1, [&] { return read(descriptor, &record, sizeof record); },
        [&](off_t offset) { return pread(descriptor, &record, sizeof record, offset); });
  }
  static off_t seek(int descriptor, off_t offset, int whence) {
    return CachedReads::instance().seek(descriptor, offset, whence,
                                        [&] { return lseek(descriptor, offset, whence); });
  }
  // Seeks and reads from the beginning, until the position is ours.
  static void take_position(int descriptor) {
    Record record;
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(seek(descriptor, 0, SEEK_SET), 0);
      ASSERT_EQ(read_record(descriptor, record), static_cast<ssize_t>(sizeof record));
    }
    ASSERT_EQ(seek(descriptor, 0, SEEK_SET), 0);
    ASSERT_EQ(lseek(descriptor, 0, SEEK_CUR), 0);
  }
};

TEST_F(PositionTest, FilesThatProgramsSeekInAreServed) {
  const int descriptor = open_file(0);
  Record record;
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(read_record(descriptor, record), static_cast<ssize_t>(sizeof record));
    ASSERT_EQ(record.offset, i * sizeof record);
    ASSERT_EQ(seek(descriptor, 0, SEEK_CUR), static_cast<off_t>((i + 1) * sizeof record));
  }
  EXPECT_EQ(offers, 0);  // it has read, and asked where it is
  for (std::size_t i = 0; i < 200; ++i)
    ASSERT_EQ(seek(descriptor, static_cast<off_t>(i * sizeof record), SEEK_SET),
              static_cast<off_t>(i * sizeof record));
  EXPECT_EQ(offers, 0);
  const off_t there = 199 * static_cast<off_t>(sizeof record);
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), there);
  read_record(descriptor, record);
  EXPECT_EQ(offers, 1);
  EXPECT_EQ(record.offset, static_cast<std::uint64_t>(there));
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), there);  // the kernel knows nothing of it
  EXPECT_EQ(seek(descriptor, 0, SEEK_CUR), there + static_cast<off_t>(sizeof record));
  // The kernel's read, at our position.
  misses = true;
  read_record(descriptor, record);
  EXPECT_EQ(record.offset, static_cast<std::uint64_t>(there) + sizeof record);
  misses = false;
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), there);
  CachedReads::instance().give_back_position(descriptor);
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), there + 2 * static_cast<off_t>(sizeof record));
  read_record(descriptor, record);
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), there + 3 * static_cast<off_t>(sizeof record));
  close_file(descriptor);
}

TEST_F(PositionTest, WhereTheKernelMayGoElsewhereItIsAsked) {
  const off_t end = records * sizeof(Record);
  for (const auto& [offset, whence] :
       std::vector<std::pair<off_t, int>>{{-1, SEEK_SET},
                                          {-1, SEEK_CUR},
                                          {end + 1, SEEK_SET},
                                          {1, SEEK_END},
                                          {0, SEEK_DATA},
                                          {0, SEEK_HOLE},
                                          {-end - 1, SEEK_END},
                                          {0, 77},
                                          {std::numeric_limits<off_t>::max(), SEEK_END}}) {
    const int descriptor = open_file(0);
    take_position(descriptor);
    const int other = open(paths_[0].c_str(), O_RDONLY);
    errno = 0;
    const off_t wanted = lseek(other, offset, whence);
    const int error = errno;
    errno = 0;
    EXPECT_EQ(seek(descriptor, offset, whence), wanted) << offset << " " << whence;
    EXPECT_EQ(errno, error);
    EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), lseek(other, 0, SEEK_CUR));
    close(other);
    close_file(descriptor);
  }
  const int descriptor = open_file(0);
  take_position(descriptor);
  EXPECT_EQ(seek(descriptor, end, SEEK_SET), end);
  EXPECT_EQ(seek(descriptor, -end, SEEK_CUR), 0);
  EXPECT_EQ(seek(descriptor, -16, SEEK_END), end - 16);
  Record record;
  EXPECT_EQ(read_record(descriptor, record), static_cast<ssize_t>(sizeof record));
  EXPECT_EQ(read_record(descriptor, record), 0);
  EXPECT_EQ(offers, 10);
  close_file(descriptor);
}

// Threads share a file, whose reads are served, missed and refused by turns, and whose position may
// go back to the kernel: each record is read once.
TEST_F(PositionTest, ThreadsReadEachRecordOnce) {
  for (int turn = 0; turn < 200; ++turn) {
    const int descriptor = open_file(0);
    if (turn % 3 != 0) {
      take_position(descriptor);
    } else {
      for (int i = 0; i < 3; ++i)
        read_inode(descriptor);  // served from now on: whoever reads first takes the position
    }
    std::vector<std::atomic<int>> times(records);
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&, i] {
        Record record;
        for (int reads = 0; read_record(descriptor, record) > 0; ++reads) {
          if (record.inode != inodes_[0] || record.offset / sizeof record >= records) {
            ++wrong;
          } else {
            ++times[record.offset / sizeof record];
          }
          misses = reads % 7 == i;
          forgets = reads % 97 == 96 - i;
          if (turn % 2 == 1 && reads == 300 + i)
            CachedReads::instance().give_back_position(descriptor);
        }
      });
    }
    for (std::thread& reader : readers)
      reader.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](const auto& one) { return one == 1; }))
        << "turn " << turn;
    close_file(descriptor);
  }
}

// A handler comes in the middle of everything that is done with the position, and reads, too. It
// puts the position back, so that the interrupted thread reads each record in turn.
TEST_F(PositionTest, HandlersFindThePositionWhereItIs) {
  static std::atomic<int> descriptor{-1};
  static std::atomic<int> handled{0};
  struct sigaction action {};
  action.sa_handler = [](int) {
    Record record;
    if (descriptor < 0) return;
    const int saved = errno;
    if (read_record(descriptor, record) == sizeof record)
      seek(descriptor, -static_cast<off_t>(sizeof record), SEEK_CUR);
    ++handled;
    errno = saved;
  };
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> ends{false};
  const pthread_t self = pthread_self();
  std::thread sender([&] {
    while (!ends) {
      pthread_kill(self, SIGUSR1);
      usleep(1);  // so that most reads are not the handler's
    }
  });
  for (int turn = 0; turn < 20'000; ++turn) {
    const int number = open_file(0);
    for (int i = 0; i < 3; ++i)
      read_inode(number);  // served from now on
    descriptor = number;
    for (std::size_t i = 0; i < 6; ++i) {
      Record record;
      ASSERT_EQ(read_record(number, record), static_cast<ssize_t>(sizeof record));
      ASSERT_EQ(record.offset, i * sizeof record);
      if (i == 3) CachedReads::instance().give_back_position(number);
    }
    descriptor = -1;
    close_file(number);
  }
  ends = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GT(handled, 0);
}

// Whatever a number was before: the next file under it begins at its own position.
TEST_F(PositionTest, ANumberThatIsOpenedAgainBeginsAnew) {
  for (int turn = 0; turn < 4; ++turn) {
    int descriptor = open_file(0);
    take_position(descriptor);
    Record record;
    read_record(descriptor, record);
    if (turn % 2 == 0) {
      close_file(descriptor);
    } else {
      close(descriptor);  // unseen
    }
    const int again = open_file(0, turn < 2 ? O_RDONLY : O_RDWR);
    ASSERT_EQ(again, descriptor);
    EXPECT_EQ(lseek(again, 0, SEEK_CUR), 0);
    EXPECT_EQ(read_record(again, record), static_cast<ssize_t>(sizeof record));
    EXPECT_EQ(record.offset, 0U);
    close_file(again);
  }
}

TEST_F(PositionTest, OnesThatAreSharedStayTheKernels) {
  CachedReads& reads = CachedReads::instance();
  const int descriptor = open_file(0);
  reads.before_child(0);
  Record record;
  for (std::size_t i = 0; i < 1000; ++i) {
    read_record(descriptor, record);
    ASSERT_EQ(lseek(descriptor, 0, SEEK_CUR), static_cast<off_t>((i + 1) * sizeof record));
  }
  EXPECT_EQ(offers, 0);
  EXPECT_EQ(reads_until_served(descriptor), 3);  // by pread
  read_record(descriptor, record);
  EXPECT_EQ(record.offset, 1000 * sizeof record);
  close_file(descriptor);
}

// The last one: nothing is served afterwards in this process.
TEST_F(PositionTest, ZZStopEndsAll) {
  const int descriptor = open_file(0);
  const int at_position = open_file(0);
  take_position(at_position);
  Record record;
  read_record(at_position, record);
  EXPECT_EQ(reads_until_served(descriptor), 3);
  CachedReads::instance().stop();
  EXPECT_EQ(lseek(at_position, 0, SEEK_CUR), static_cast<off_t>(sizeof record));
  close(at_position);
  EXPECT_EQ(reads_until_served(descriptor), -1);
  const int other = open_file(1);
  EXPECT_EQ(reads_until_served(other), -1);
  close_file(other);
  close_file(descriptor);
}

}  // namespace
