// Names that change while a file is open: reads still use the opened file.
#include <cerrno>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "bulk/bulk_files.hpp"
#include "support/error_of.hpp"
#include "support/in_a_child.hpp"

namespace ferry::bulk::names_test {
namespace {

using namespace test;

constexpr std::size_t bytes = (2 << 20) + 777;

// The process's folder; put back at the end.
class InDirectory {
 public:
  explicit InDirectory(const std::string& path) { std::filesystem::current_path(path); }
  ~InDirectory() { std::filesystem::current_path(before_); }
  InDirectory(const InDirectory&) = delete;
  InDirectory& operator=(const InDirectory&) = delete;

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
};

struct BulkNames : ByRoute {
  const std::string mine = pattern(bytes, 1);
  const std::string others = pattern(bytes, 2);

  static void make(const std::string& name, const std::string& contents) {
    write_file(name, contents);
    make_cold(name);
  }
  void expect_mine(const File& file) {
    std::string got(bytes, '#');
    EXPECT_EQ(file.read_at(got.data(), bytes, 0), bytes);
    EXPECT_TRUE(same_bytes(got, mine));
  }
};

TEST_P(BulkNames, ARenameOverTheFile) {
  make(path, mine);
  make(scratch / "new", others);
  const File file(engine, path);
  std::filesystem::rename(scratch / "new", path);
  expect_mine(file);
}

TEST_P(BulkNames, AnotherWorkingDirectory) {
  std::filesystem::create_directory(scratch / "one");
  std::filesystem::create_directory(scratch / "two");
  make(scratch / "one/file", mine);
  make(scratch / "two/file", others);
  const InDirectory one(scratch / "one");
  const File file(engine, "file");
  const InDirectory two(scratch / "two");
  expect_mine(file);
}

TEST_P(BulkNames, ATurnedLink) {
  make(scratch / "one", mine);
  make(scratch / "two", others);
  std::filesystem::create_symlink("one", scratch / "link");
  const File file(engine, scratch / "link");
  std::filesystem::remove(scratch / "link");
  std::filesystem::create_symlink("two", scratch / "link");
  expect_mine(file);
}

TEST_P(BulkNames, AFileWithoutAName) {
  make(path, mine);
  const File file(engine, path);
  std::filesystem::remove(path);
  expect_mine(file);
}

// The existing descriptor must do if the file may not be opened again.
TEST_P(BulkNames, AFileThatMayNotBeOpenedAgain) {
  make(path, mine);
  const File file(engine, path);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  make(scratch / "new", others);
  std::filesystem::rename(scratch / "new", path);
  expect_mine(file);
}

bool has(const File& file, const std::string& wanted) {
  // No more than a caller reads itself: a sanitizer's runtime refuses threads in a child.
  std::string got(100'000, '#');
  return file.read_at(got.data(), got.size(), 4096) == got.size() &&
         got == wanted.substr(4096, got.size());
}

TEST_P(BulkNames, AChildHasItsParentsFile) {
  make(path, mine);
  make(scratch / "new", others);
  const File file(engine, path);
  std::filesystem::rename(scratch / "new", path);
  const auto work = [&] {
    const Engine own = Engine::common();
    return has(File(own, file), mine);
  };
  EXPECT_EQ(in_a_child(work), true);
}

TEST_P(BulkNames, AChildThatHasClosedTheDescriptor) {
  make(path, mine);
  make(scratch / "new", others);
  const File file(engine, path);
  const int fd = file.descriptor();
  const auto by_name = [&] {
    ::close(fd);
    ::open((scratch / "new").c_str(), O_RDONLY);  // takes that number
    const Engine own = Engine::common();
    return has(File(own, file), mine);
  };
  EXPECT_EQ(in_a_child(by_name), true);
  std::filesystem::rename(scratch / "new", path);
  write_file(scratch / "new", others);
  EXPECT_EQ(in_a_child([&] { return error_of([&] { by_name(); }) == ESTALE; }), true);
}

TEST_P(BulkNames, AChildLeavesTheParentsFileAndFutures) {
  make(path, mine);
  File file(engine, path);
  std::string got(bytes, '#');
  Future future = file.read_at_async(got.data(), bytes, 0);
  const auto work = [&] {
    if (error_of([&] { file.close(); }) != ECHILD) return false;
    future.cancel();
    return future.ready() || error_of([&] { future.then([] {}); }) == ECHILD;
  };
  EXPECT_EQ(in_a_child(work), true);
  EXPECT_EQ(future.get(), bytes);
  EXPECT_TRUE(same_bytes(got, mine));
}

INSTANTIATE_TEST_SUITE_P(Routes, BulkNames, every_route, name_of);

}  // namespace
}  // namespace ferry::bulk::names_test
