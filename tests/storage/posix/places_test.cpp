#include "storage/posix/places.hpp"

#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
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

}  // namespace
}  // namespace ferry::storage
