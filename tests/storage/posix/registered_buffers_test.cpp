// io_uring's registered buffers are used only where they move the right bytes.
#include "storage/posix/registered_buffers.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage/posix/file.hpp"
#include "storage/posix/queue.hpp"
#include "storage/posix/uring_queue.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::Descriptor;
using test::pattern;
using test::ScratchDirectory;
using test::StorageDriver;

// A file system's effect on bytes behind the first page.
enum class Fault : std::uint8_t { none, writes, reads, direct_only, refuses, ends_early };

// A client that gets a registered buffer's pages and keeps using the first one.
class FaultyTransfers final : public RegisteredTransfers {
 public:
  explicit FaultyTransfers(Fault fault) : fault_(fault), real_(make_registered_transfers()) {}

  std::span<std::byte, bytes> memory() override { return real_->memory(); }
  std::int64_t read(int fd, std::span<std::byte> part, std::int64_t offset) override {
    if (fault_ == Fault::refuses) return -EOPNOTSUPP;
    const std::int64_t moved = real_->read(fd, part, offset);
    if (fault_ == Fault::reads) repeat_first_page(part);
    return fault_ == Fault::ends_early ? moved / 2 : moved;
  }
  std::int64_t write(int fd, std::span<std::byte> part, std::int64_t offset) override {
    if (fault_ == Fault::refuses) return -EOPNOTSUPP;
    const bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
    if (fault_ != Fault::writes && !(fault_ == Fault::direct_only && direct))
      return real_->write(fd, part, offset);
    const std::vector<std::byte> kept(part.begin(), part.end());
    repeat_first_page(part);
    const std::int64_t moved = real_->write(fd, part, offset);
    std::copy(kept.begin(), kept.end(), part.begin());
    return moved;
  }

 private:
  static void repeat_first_page(std::span<std::byte> part) {
    for (std::size_t at = 4096; at < part.size(); at += 4096)
      std::memcpy(part.data() + at, part.data(), 4096);
  }

  const Fault fault_;
  const std::unique_ptr<RegisteredTransfers> real_;
};

// Every file system counts as unknown, and this is how it moves bytes.
class Trials final : public RegisteredBufferTrials {
 public:
  explicit Trials(Fault fault) : fault_(fault) {}
  RegisteredBuffers by_type(std::uint64_t /*type*/) const override {
    return RegisteredBuffers::untested;
  }
  unsigned tests() const { return tests_; }

 protected:
  std::unique_ptr<RegisteredTransfers> transfers() const override {
    ++tests_;
    return std::make_unique<FaultyTransfers>(fault_);
  }

 private:
  const Fault fault_;
  mutable unsigned tests_ = 0;
};

// Of two simultaneous trials one finds wrong bytes and ends first.
class TwoTrials final : public RegisteredBufferTrials {
 public:
  RegisteredBuffers by_type(std::uint64_t /*type*/) const override {
    return RegisteredBuffers::untested;
  }
  RegisteredBuffers both(int fd) {
    other_ = [this, fd] { EXPECT_EQ(of(fd), RegisteredBuffers::wrong); };
    EXPECT_EQ(of(fd), RegisteredBuffers::right) << "by itself";
    return known(fd);
  }

 protected:
  std::unique_ptr<RegisteredTransfers> transfers() const override {
    const std::function<void()> other = std::exchange(other_, nullptr);
    if (!other) return std::make_unique<FaultyTransfers>(Fault::writes);
    other();
    return std::make_unique<FaultyTransfers>(Fault::none);
  }

 private:
  mutable std::function<void()> other_;
};

// Whether a thread of this process waits in the kernel.
bool waits(pid_t thread) {
  std::string number;
  std::string name;
  std::string state;
  std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat") >> number >> name >> state;
  return state == "S";
}

class RegisteredBuffersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const int error = uring_refused(); error != 0)
      GTEST_SKIP() << "the kernel refuses io_uring: " << std::strerror(-error);
    if (!make_registered_transfers()) GTEST_SKIP() << "absent: memory that may be locked";
    const Descriptor nameless(::open(directory.path().c_str(), O_TMPFILE | O_RDWR, 0600));
    if (nameless < 0) GTEST_SKIP() << "absent: nameless files on " << directory.path();
    test::write_file(directory / "f", pattern(1 << 16, 1));
  }
  RegisteredBuffers result_of(Fault fault) {
    Trials trials(fault);
    return trials.of(file);
  }

  const ScratchDirectory directory;
  const Descriptor file{::open((directory / "f").c_str(), O_RDONLY | O_CREAT, 0600)};
};

TEST_F(RegisteredBuffersTest, OnlyTheRightBytesAreProof) {
  EXPECT_EQ(result_of(Fault::none), RegisteredBuffers::right);
  EXPECT_EQ(result_of(Fault::writes), RegisteredBuffers::wrong);
  EXPECT_EQ(result_of(Fault::reads), RegisteredBuffers::wrong);
  const Descriptor direct(::open((directory / "f").c_str(), O_RDONLY | O_DIRECT));
  if (direct >= 0) {
    EXPECT_EQ(result_of(Fault::direct_only), RegisteredBuffers::wrong);
  }
  EXPECT_EQ(result_of(Fault::refuses), RegisteredBuffers::untestable);
  EXPECT_EQ(result_of(Fault::ends_early), RegisteredBuffers::untestable);
}

TEST_F(RegisteredBuffersTest, TheFolderStaysAsItWas) {
  namespace fs = std::filesystem;
  const auto before = fs::last_write_time(directory.path());
  result_of(Fault::writes);
  EXPECT_EQ(fs::last_write_time(directory.path()), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(test::read_file(directory / "f"), pattern(1 << 16, 1));
}

TEST_F(RegisteredBuffersTest, AFileSystemIsTestedOnce) {
  Trials trials(Fault::writes);
  EXPECT_EQ(trials.known(file), RegisteredBuffers::untested);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(trials.of(file), RegisteredBuffers::wrong);
  EXPECT_EQ(trials.known(file), RegisteredBuffers::wrong);
  EXPECT_EQ(trials.tests(), 1U);
}

// Folders may differ in what may be made there.
TEST_F(RegisteredBuffersTest, WhatCannotBeTestedIsTriedAFewTimes) {
  Trials trials(Fault::refuses);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(trials.of(file), RegisteredBuffers::untestable);
  EXPECT_GT(trials.tests(), 1U);
  EXPECT_LT(trials.tests(), 20U);
}

TEST_F(RegisteredBuffersTest, NothingIsMadeWhereNothingCanBe) {
  Trials trials(Fault::none);
  const Descriptor generated(::open("/proc/self/status", O_RDONLY));
  EXPECT_EQ(trials.of(generated), RegisteredBuffers::untestable);
  EXPECT_EQ(trials.tests(), 0U);
}

TEST_F(RegisteredBuffersTest, OneTrialOfSeveralThatFindsWrongBytesCounts) {
  TwoTrials trials;
  EXPECT_EQ(trials.both(file), RegisteredBuffers::wrong);
}

TEST_F(RegisteredBuffersTest, SignalsDoNotStopATransfer) {
  struct sigaction empty {};
  empty.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &empty, &before), 0);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Descriptor out(ends[0]);
  const Descriptor in(ends[1]);
  const auto transfers = make_registered_transfers();
  std::atomic<pid_t> reading{0};
  std::int64_t moved = -1;
  test::within_patience("a transfer that signals arrive in", [&] {
    std::thread reader([&] {
      reading = gettid();
      moved = transfers->read(out, transfers->memory().first(1), 0);
    });
    for (int i = 0; i < 10; ++i) {
      while (reading == 0 || !waits(reading))
        std::this_thread::yield();
      EXPECT_EQ(pthread_kill(reader.native_handle(), SIGUSR1), 0);
    }
    EXPECT_EQ(::write(in, "x", 1), 1);
    reader.join();
  });
  EXPECT_EQ(moved, 1);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(RegisteredBufferTrials, KnowLustreByItsName) {
  const RegisteredBufferTrials trials;
  EXPECT_EQ(trials.by_type(0x0BD00BD0), RegisteredBuffers::wrong);
  EXPECT_EQ(trials.by_type(0xEF53), RegisteredBuffers::right);
  EXPECT_EQ(trials.by_type(0x6969), RegisteredBuffers::untested) << "NFS";
  EXPECT_NE(without_registered_buffers(RegisteredBuffers::wrong, true).find("Lustre"),
            std::string::npos);
  EXPECT_EQ(without_registered_buffers(RegisteredBuffers::right, false), "");
}

// The queue of a storage on which every file system has this fault. Other pages replace the
// registered ones: transfers through registered buffers do not arrive there.
class ReplacedMemory {
 public:
  explicit ReplacedMemory(Fault fault) {
    memory_ = map(nullptr, 0);
    shared_.registered_buffers = std::make_unique<Trials>(fault);
    driver_ = std::make_unique<StorageDriver>(storage_, std::span(memory_, bytes), 16);
    map(memory_, MAP_FIXED);
  }
  ~ReplacedMemory() {
    driver_.reset();
    ::munmap(memory_, bytes);
  }
  ReplacedMemory(const ReplacedMemory&) = delete;
  ReplacedMemory& operator=(const ReplacedMemory&) = delete;

  static constexpr std::size_t bytes = 1 << 16;
  StorageDriver& driver() { return *driver_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(memory_), bytes}; }
  std::byte* data() { return memory_; }

 private:
  class OneQueue final : public Storage {
   public:
    explicit OneQueue(PosixShared& shared) : shared_(shared) {}
    std::unique_ptr<Queue> make_queue(const QueueOptions& options) override {
      return make_uring_queue(shared_, options);
    }
    Description describe() const override { return Description{"posix", "io_uring", {}}; }

   private:
    PosixShared& shared_;
  };

  static std::byte* map(std::byte* at, int flags) {
    void* memory =
        ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  PosixShared shared_;
  OneQueue storage_{shared_};
  std::byte* memory_ = nullptr;
  std::unique_ptr<StorageDriver> driver_;
};

class RegisteredBuffersInQueue : public RegisteredBuffersTest {
 protected:
  // Whether a direct read of the whole file arrives in memory that was registered before.
  void read_whole(Fault fault, bool& arrived) {
    ReplacedMemory memory(fault);
    File* direct = nullptr;
    const std::int64_t error = memory.driver().open(directory / "f", O_RDONLY | O_DIRECT, direct);
    if (error == -EINVAL) GTEST_SKIP() << "absent: direct I/O on " << directory.path();
    ASSERT_EQ(error, 0);
    EXPECT_EQ(memory.driver().pread(direct, memory.data(), ReplacedMemory::bytes, 0),
              std::int64_t{ReplacedMemory::bytes});
    arrived = memory.view() == pattern(1 << 16, 1);
    EXPECT_EQ(memory.driver().close(direct), 0);
  }
};

TEST_F(RegisteredBuffersInQueue, AreUsedOnceProven) {
  bool arrived = true;
  read_whole(Fault::none, arrived);
  if (IsSkipped()) return;
  EXPECT_FALSE(arrived) << "or else this test shows nothing";
}

TEST_F(RegisteredBuffersInQueue, AreNotUsedWhereTheyMoveWrongBytes) {
  for (const Fault fault : {Fault::writes, Fault::reads, Fault::refuses, Fault::ends_early}) {
    bool arrived = false;
    read_whole(fault, arrived);
    if (IsSkipped()) return;
    EXPECT_TRUE(arrived);
  }
}

}  // namespace
}  // namespace ferry::storage
