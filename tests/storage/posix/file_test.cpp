// Opening files while other programs change them, or with parts of the system missing.
#include "storage/posix/file.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <unistd.h>

#include "storage/posix/posix.hpp"
#include "support/files.hpp"
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

}  // namespace
}  // namespace ferry::storage
