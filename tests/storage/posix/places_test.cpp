#include "storage/posix/places.hpp"

#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/posix/posix.hpp"
#include "support/blocked_file.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"

namespace ferry::storage {
namespace {

Place device_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_dev;
}

class PlacesTest : public testing::Test {
 protected:
  Place place_of(const std::string& path, Kind kind = Kind::path_status, int flags = 0) {
    Operation operation{.kind = kind, .path = path.c_str(), .flags = flags};
    by_words = places.of(operation);
    return places.find(operation, by_words);
  }

  void SetUp() override { ASSERT_EQ(mkdir((directory / "dir").c_str(), 0755), 0); }

  const test::ScratchDirectory directory;
  const Place proc = device_of("/proc");  // which is mounted wherever these tests run
  Places places;
  Place by_words = 0;
};

TEST_F(PlacesTest, AreTheFileSystemsOfPaths) {
  for (const char* path : {"/proc/self/status", "/proc", "/proc/../proc//missing"})
    EXPECT_EQ(place_of(path), proc);
  EXPECT_NE(place_of(directory / "missing"), proc);
}

TEST_F(PlacesTest, SymbolicLinksAreFollowedToWhereTheyLead) {
  ASSERT_EQ(symlink("/proc", (directory / "away").c_str()), 0);
  ASSERT_EQ(symlink("dir", (directory / "near").c_str()), 0);
  ASSERT_EQ(symlink("../away", (directory / "dir/twice").c_str()), 0);
  ASSERT_EQ(symlink("loop", (directory / "loop").c_str()), 0);
  const Place here = place_of(directory / "dir");
  EXPECT_NE(here, proc);
  EXPECT_EQ(place_of(directory / "away/self/status"), proc);
  EXPECT_EQ(by_words, here);
  EXPECT_EQ(place_of(directory / "near/twice/self"), proc);
  EXPECT_EQ(place_of(directory / "near"), here);
  EXPECT_EQ(place_of(directory / "loop"), here);
  EXPECT_EQ(place_of(directory / "away"), proc);
  EXPECT_EQ(place_of(directory / "away", Kind::unlink), here) << "the link itself";
  EXPECT_EQ(place_of(directory / "away", Kind::open, O_NOFOLLOW), here);
}

// As the kernel walks: up from a link's target, not from the link.
TEST_F(PlacesTest, ParentsAreThoseOfWhatLinksLeadTo) {
  ASSERT_EQ(mkdir((directory / "dir/inner").c_str(), 0755), 0);
  ASSERT_EQ(symlink("/proc/self", (directory / "away").c_str()), 0);
  ASSERT_EQ(symlink("dir/inner", (directory / "near").c_str()), 0);
  ASSERT_EQ(symlink("/proc", (directory / "dir/only there").c_str()), 0);
  const Place here = place_of(directory / "dir");
  for (const char* name : {"away/../version", "near/../only there/version",
                           "dir/inner/../../away/status", "dir/../../../../../../proc/version"})
    EXPECT_EQ(place_of(directory / name), proc) << name;
  for (const char* name : {"near/../inner", "near/..", "dir/../dir/./inner//"})
    EXPECT_EQ(place_of(directory / name), here) << name;
  EXPECT_EQ(place_of("/../.."), device_of("/"));
}

TEST_F(PlacesTest, ARenamingLiesOnBoth) {
  Operation operation{.kind = Kind::rename, .path = "/proc/one", .new_path = "/proc/two"};
  EXPECT_EQ(places.of(operation), proc);
  operation.new_path = "/two";
  const Place both = places.of(operation);
  EXPECT_NE(both, proc);
  EXPECT_NE(both, device_of("/"));
}

// As many calls as one file system's threads hang; calls on another one and by name continue.
TEST(PosixPlaces, CallsThatHangHoldOnlyTheirOwnFileSystemUp) {
  const test::ScratchDirectory directory;
  test::write_file(directory / "f", "abc");
  const auto storage = make_posix(Engine::threads);
  test::StorageDriver hung(*storage);
  test::StorageDriver driver(*storage);
  std::vector<test::BlockedFile> blocked(100);
  std::vector<Operation> waiting;
  for (test::BlockedFile& one : blocked) {
    one.file().place = 1;
    waiting.push_back(one.operation());
  }
  for (Operation& operation : waiting)
    hung.queue().submit(operation);
  hung.queue().flush();
  File* file = driver.must_open(directory / "f", O_RDWR);
  EXPECT_EQ(driver.pwrite(file, "new", 3, 0), 3);
  EXPECT_EQ(driver.simple(Kind::sync, file), 0);
  EXPECT_EQ(driver.close(file), 0);
  EXPECT_EQ(driver.path_call(Kind::unlink, directory / "f"), 0);
  EXPECT_EQ(hung.queue().reap(), nullptr) << "they hang still";
  for (test::BlockedFile& one : blocked)
    one.release();
  hung.expect_next(waiting.size(), 1);
}

// A queue makes, looks up and removes names on a healthy file system while calls by name on one
// that does not answer, also through a link, are with it.
TEST(PosixPlaces, NamesOnAFileSystemThatHangsHoldUpNoOthers) {
  const test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  const std::string place = own / "hung";
  ASSERT_EQ(::mkdir(place.c_str(), 0755), 0);
  ASSERT_EQ(::symlink("hung", (own / "link").c_str()), 0);
  const auto storage = make_posix(Engine::threads);
  test::StorageDriver driver(*storage);
  // Nobody answers what is asked through it; once it is closed, calls end with an error.
  test::Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (device < 0) GTEST_SKIP() << "absent: /dev/fuse: " << std::strerror(errno);
  const std::string options =
      "fd=" + std::to_string(device) + ",rootmode=40755,user_id=0,group_id=0";
  ASSERT_EQ(::mount("ferry-test", place.c_str(), "fuse", 0, options.c_str()), 0);
  ASSERT_EQ(driver.try_open(own / "first", O_RDWR | O_CREAT), 0);  // the mount is known now
  const std::vector<std::string> paths{place + "/f", own / "link/f"};
  std::deque<Operation> waiting;
  for (const std::string& path : paths) {
    const char* text = path.c_str();
    waiting.push_back({.kind = Kind::unlink, .path = text});
    waiting.push_back({.kind = Kind::path_status, .path = text});
    for (const int flags : {O_RDONLY, O_CREAT | O_RDWR, O_CREAT | O_EXCL | O_RDWR})
      waiting.push_back({.kind = Kind::open, .path = text, .flags = flags, .mode = 0600});
  }
  for (Operation& operation : waiting)
    driver.start(operation);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(driver.try_open(own / "new", O_RDWR | O_CREAT | O_EXCL), 0);
    storage::Status status;
    EXPECT_EQ(driver.path_call(Kind::path_status, own / "new", &status), 0);
    EXPECT_EQ(driver.path_call(Kind::unlink, own / "new"), 0);
  }
  EXPECT_EQ(driver.queue().reap(), nullptr) << "they hang still";
  ::close(device.release());
  for (std::size_t i = 0; i < waiting.size(); ++i)
    EXPECT_LT(driver.next().result, 0);
  ::umount2(place.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace ferry::storage
