// Opening files while other programs change them, or with parts of the system missing.
#include "storage/posix/file.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <unistd.h>

#include "storage/posix/local_mounts.hpp"
#include "storage/posix/posix.hpp"
#include "support/files.hpp"
#include "support/in_a_child.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

using test::Descriptor;
using test::OwnMount;

// A program that fills a file just before another's read, after it was seen to be empty.
class FilledBeforeARead {
 public:
  explicit FilledBeforeARead(const std::string& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)),
        events_(::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY)) {
    if (events_ < 0 ||
        ::fanotify_mark(events_, FAN_MARK_ADD, FAN_ACCESS_PERM, AT_FDCWD, path.c_str()) != 0) {
      why_ = "this process may not watch reads: " + std::system_category().message(errno);
      return;
    }
    thread_ = std::thread([this] { run(); });
  }
  ~FilledBeforeARead() {
    ::eventfd_write(end_, 1);
    if (thread_.joinable()) thread_.join();
  }
  FilledBeforeARead(const FilledBeforeARead&) = delete;
  FilledBeforeARead& operator=(const FilledBeforeARead&) = delete;
  explicit operator bool() const { return why_.empty(); }
  const std::string& why() const { return why_; }

 private:
  void run() {
    pollfd sources[] = {{events_, POLLIN, 0}, {end_, POLLIN, 0}};
    while (::poll(sources, 2, -1) < 0 || sources[1].revents == 0) {
      fanotify_event_metadata event{};
      if (::read(events_, &event, sizeof event) != sizeof event) continue;
      const Descriptor read_from(event.fd);
      EXPECT_EQ(::pwrite(file_, "bytes", 5, 0), 5);
      const fanotify_response allowed{event.fd, FAN_ALLOW};
      EXPECT_EQ(::write(events_, &allowed, sizeof allowed), ssize_t{sizeof allowed});
    }
  }

  const Descriptor file_;
  const Descriptor events_;
  const Descriptor end_{::eventfd(0, EFD_CLOEXEC)};
  std::string why_;
  std::thread thread_;
};

class PosixFiles : public test::StorageTest {
 protected:
  // Opened in threads started now, which see this one's mounts.
  void make_storage() { use(make_posix(StorageEngine::threads)); }
  void expect_no_generated_file(const std::string& path) {
    const FilledBeforeARead filled(path);
    if (!filled) GTEST_SKIP() << filled.why();
    make_storage();
    File* const file = driver->must_open(path, O_RDONLY);
    EXPECT_FALSE(static_cast<PosixFile*>(file)->generated);
    EXPECT_EQ(driver->close(file), 0);
  }
};

TEST_F(PosixFiles, OneThatIsFilledWhileItIsOpenedIsNotMadeUp) {
  const OwnMount memory("size=1m");
  if (!memory) GTEST_SKIP() << memory.why();
  expect_no_generated_file(memory / "f");
}

// A file system that nothing is known of.
TEST_F(PosixFiles, NorIsOneOfAnyOtherFileSystem) {
  const OwnMount memory("size=1m");
  if (!memory) GTEST_SKIP() << memory.why();
  for (const char* folder : {"lower", "upper", "work", "all"})
    ASSERT_EQ(mkdir((memory / folder).c_str(), 0755), 0);
  const std::string layers = "lowerdir=" + (memory / "lower") + ",upperdir=" + (memory / "upper") +
                             ",workdir=" + (memory / "work");
  if (mount("ferry-test", (memory / "all").c_str(), "overlay", 0, layers.c_str()) != 0)
    GTEST_SKIP() << "absent: overlayfs: " << std::strerror(errno);
  expect_no_generated_file(memory / "all/f");
  driver.reset();
  storage.reset();
  umount2((memory / "all").c_str(), MNT_DETACH);
}

TEST_F(PosixFiles, OpenForDirectTransfersWhereThereIsNoProc) {
  const OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  const test::ScratchDirectory directory;
  const std::string path = directory / "f";
  make_storage();
  if (mount("ferry-test", "/proc", "tmpfs", MS_RDONLY, nullptr) != 0)
    GTEST_SKIP() << "this process may not mount over /proc: " << std::strerror(errno);
  char got[5] = {};
  File* file = nullptr;
  const std::int64_t made = driver->open(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT, file);
  if (made == 0) {
    EXPECT_EQ(driver->pwrite(file, "bytes", 5, 0), 5);
    EXPECT_EQ(driver->pread(file, got, 5, 0), 5);
    EXPECT_EQ(driver->close(file), 0);
  }
  const std::int64_t cut = driver->try_open(path, O_RDWR | O_TRUNC | O_DIRECT);
  EXPECT_EQ(umount2("/proc", MNT_DETACH), 0);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(std::string(got, 5), "bytes");
  EXPECT_EQ(cut, 0);
}

// A lock that another thread holds at the fork stays locked in the child, where nobody opens it.
TEST(ChildrenOfFork, OpenAndLookAtFilesWhileTheirParentDoes) {
  test::ScratchDirectory directory;
  test::write_file(directory / "file", "bytes");
  PosixFile file;
  file.fd = ::open((directory / "file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file.fd, 0);
  file.stamps_changes = file.read_only = true;
  const std::uint64_t mount = mount_number(file.fd);
  const auto look = [&] {
    Operation operation;
    operation.kind = Kind::file_status;
    operation.file = &file;
    execute_blocking(operation);
    return operation.result == 0 && file_system_types().of(file.fd, mount) != 0;
  };
  ASSERT_TRUE(look());
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!stop.load())
        EXPECT_TRUE(look());
    });
  for (int child = 0; child < 100; ++child)
    ASSERT_EQ(test::in_a_child([&] { return look() ? 0 : 1; }), 0);
  stop = true;
}

}  // namespace
}  // namespace ferry::storage
