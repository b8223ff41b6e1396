// The io_uring engine: its tables of registered files and buffers, also when too small.
#include "storage/posix/uring_queue.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage/posix/file.hpp"
#include "storage/posix/posix.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/in_a_child.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::AlignedBytes;
using test::pattern;
using test::same_bytes;
using test::ScratchDirectory;
using test::StorageDriver;

class Uring : public test::StorageTest {
 protected:
  Uring() : StorageTest(1 << 20) {}
  void SetUp() override {
    if (const int error = uring_refused(); error != 0) {
      GTEST_SKIP() << "the kernel refuses io_uring: " << std::strerror(-error);
    }
    use(make_posix(Engine::io_uring), 16);
  }

  // One page of each file, all in one batch.
  test::Transfers start_each(Kind kind, const std::vector<File*>& files) {
    test::Transfers started;
    for (File* file : files) {
      char* const page = arena.data() + started.size() * 4096;
      driver->queue().submit(started.emplace_back(kind, file, page, 4096));
    }
    driver->queue().flush();
    return started;
  }
  void expect_batch_reads(const std::vector<File*>& files, const std::vector<std::string>& pages) {
    std::memset(arena.data(), 0, files.size() * 4096);
    const test::Transfers reads = start_each(Kind::read, files);
    driver->expect_next(files.size(), 4096);
    for (std::size_t i = 0; i < files.size(); ++i)
      EXPECT_TRUE(same_bytes(arena.view(i * 4096, 4096), pages[i])) << "operation " << i;
  }

  ScratchDirectory directory;
};

// Raised to the most there may be.
std::size_t descriptors_allowed() {
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// More files than the kernel's table can hold, used in one batch: each operation must reach its own
// file, whichever are registered.
TEST_F(Uring, EveryOperationReachesItsOwnFile) {
  constexpr std::size_t count = 1100;
  if (descriptors_allowed() < count + 50) GTEST_SKIP() << "too few descriptors are allowed";
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
  constexpr std::size_t count = 600;
  if (descriptors_allowed() < 2 * count + 50) GTEST_SKIP() << "too few descriptors are allowed";
  std::vector<File*> files;
  for (std::size_t i = 0; i < count; ++i) {
    File* file = nullptr;
    const std::int64_t error =
        driver->open(directory / std::to_string(i), O_RDWR | O_CREAT | O_DIRECT, file);
    if (error == -EINVAL) GTEST_SKIP() << "no direct I/O here";
    ASSERT_EQ(error, 0);
    files.push_back(file);
  }
  const std::size_t indices[] = {0, 512, 1, 513, 2, 514, 3, 515};  // pairs 512 opens apart
  std::vector<File*> some;
  for (const std::size_t index : indices) {
    std::memset(arena.data() + some.size() * 4096, static_cast<int>('a' + some.size()), 4096);
    some.push_back(files[index]);
  }
  const test::Transfers writes = start_each(Kind::write, some);
  driver->expect_next(8, 4096);
  for (File* file : files)
    driver->close(file);
  char letter = 'a';
  for (const std::size_t index : indices) {
    EXPECT_TRUE(
        same_bytes(test::read_file(directory / std::to_string(index)), std::string(4096, letter++)))
        << "file " << index;
  }
}

// From now on the kernel takes no batch of `from` to `to` entries, as where it has no memory for
// them.
bool refuse_entries(unsigned from, unsigned to) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, from, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, to, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Else it would write after the owner of the memory has it back, and keep the turn.
TEST_F(Uring, DestructionAwaitsTheKernelAlsoWhereThatTakesNoEntries) {
  const int found = test::in_a_child([&] {
    const auto posix = make_posix(Engine::io_uring);
    AlignedBytes memory(8192);
    StorageDriver opener(*posix, memory.span());
    File* file = nullptr;
    if (opener.open(directory / "f", O_RDWR | O_CREAT | O_DIRECT, file) != 0) return 77;
    const auto turns = static_cast<PosixFile*>(file)->turns;
    auto queue = posix->make_queue({});
    iovec pages[] = {{memory.data(), 4096}, {memory.data() + 4096, 4096}};
    Operation begun{.kind = Kind::write, .file = file, .vectors = {&pages[0], 1}};
    Operation prepared{
        .kind = Kind::write, .file = file, .offset = 4096, .vectors = {&pages[1], 1}};
    queue->submit(begun);
    queue->flush();
    queue->flush();  // the kernel has it
    queue->submit(prepared);
    queue->flush();  // is kept for the next
    if (turns->try_begin_buffered()) return 2;
    if (!refuse_entries(1, ~0U)) return 77;
    queue.reset();
    return turns->try_begin_buffered() ? 0 : 1;
  });
  if (found == 77) GTEST_SKIP() << "absent: direct I/O, or filters of system calls";
  EXPECT_EQ(found, 0);
}

// Two files that share an entry of the kernel's table, and the first one's write is kept back.
TEST_F(Uring, AWriteThatTheKernelDidNotTakeYetStaysItsFiles) {
  constexpr std::size_t apart = 512;  // opens
  const int found = test::in_a_child([&] {
    if (descriptors_allowed() < 2 * apart + 50) return 77;
    const auto posix = make_posix(Engine::io_uring);
    AlignedBytes memory(8192);
    std::memset(memory.data(), 'a', 4096);
    std::memset(memory.data() + 4096, 'b', 4096);
    StorageDriver files(*posix, memory.span());
    std::vector<File*> opened(apart + 1);
    for (std::size_t i = 0; i <= apart; ++i)
      if (files.open(directory / std::to_string(i), O_RDWR | O_CREAT | O_DIRECT, opened[i]) != 0)
        return 77;
    if (!refuse_entries(1, 1)) return 77;
    test::DrivenTransfer first(Kind::write, opened[0], memory.data(), 4096);
    test::DrivenTransfer second(Kind::write, opened[apart], memory.data() + 4096, 4096);
    files.queue().submit(first);
    files.queue().submit(second);
    files.queue().flush();
    files.expect_next(2, 4096);
    const bool right = test::read_file(directory / "0") == std::string(4096, 'a') &&
                       test::read_file(directory / std::to_string(apart)) == std::string(4096, 'b');
    return right ? 0 : 1;
  });
  if (found == 77) GTEST_SKIP() << "absent: direct I/O, or filters of system calls";
  EXPECT_EQ(found, 0);
}

// A thread that waits for the kernel to take entries again would serve nobody.
TEST_F(Uring, WhatTheKernelTakesNoEntriesForIsDoneByThreads) {
  constexpr std::size_t pages = 64;
  constexpr unsigned depth = 16;
  const std::string data = pattern(pages * 4096, 1);
  test::write_file(directory / "f", data);
  const int found = test::in_a_child([&] {
    const auto posix = make_posix(Engine::io_uring);
    AlignedBytes memory(pages * 4096);
    test::Transfers reads;
    test::Transfers writes;
    StorageDriver files(*posix, memory.span(), depth);
    Queue& queue = files.queue();
    File* file = nullptr;
    if (files.open(directory / "f", O_RDWR | O_DIRECT, file) != 0) return 77;
    if (!refuse_entries(1, ~0U)) return 77;
    // Whether all but the first `kept` of them end.
    const auto others_end = [&](test::Transfers& transfers, Kind kind, std::size_t kept) {
      for (std::size_t i = 0; i < pages; ++i)
        queue.submit(transfers.emplace_back(kind, file, memory.data() + i * 4096, 4096,
                                            static_cast<std::int64_t>(i * 4096)));
      queue.flush();
      std::size_t ended = 0;
      const bool all = test::eventually([&] {
        for (const Operation* one = queue.reap(); one != nullptr; one = queue.reap())
          ended += one->result == 4096 ? 1 : pages;
        return ended >= pages - kept;
      });
      return all && ended == pages - kept;
    };
    if (!others_end(reads, Kind::read, depth)) return 1;
    if (!others_end(writes, Kind::write, 0)) return 2;
    queue.cancel(reads[1]);
    if (queue.reap() != &reads[1] || reads[1].result != -ECANCELED) return 3;
    return 0;
  });
  if (found == 77) GTEST_SKIP() << "absent: direct I/O, or filters of system calls";
  EXPECT_EQ(found, 0);
}

// More submitted at once than the submission queue has entries.
TEST_F(Uring, TakesMoreThanItsQueueIsDeep) {
  const std::string data = pattern(64 * 4096, 1);
  test::write_file(directory / "f", data);
  const auto file = must_open(directory / "f", O_RDONLY);
  const auto reads = driver->start_pieces(Kind::read, file, arena.data(), 4096, 64);
  driver->expect_next(64, 4096);
  EXPECT_TRUE(same_bytes(arena.view(0, data.size()), data));
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
  // So many that they go through the ring.
  const auto reads = start_each(Kind::read, std::vector<File*>(8, &file));
  driver->expect_next(8, std::ssize(text));
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
class UringWithLocked : public Uring, public testing::WithParamInterface<rlim_t> {};

TEST_P(UringWithLocked, MemoryWorks) {
  AlignedBytes memory(4 << 20);
  const LockedMemory limited(GetParam());
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

INSTANTIATE_TEST_SUITE_P(Bytes, UringWithLocked, testing::Values(0, 512 * 1024));

}  // namespace
}  // namespace ferry::storage
