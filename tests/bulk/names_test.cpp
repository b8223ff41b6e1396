// Names that change while a file is open: reads still use the opened file.
#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "support/error_of.hpp"
#include "support/files.hpp"

namespace ferry::bulk::names_test {
namespace {

using test::error_of;
using test::pattern;
using test::same_bytes;
using test::ScratchDirectory;
using test::write_file;

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

// On a file system with direct I/O, not one in memory.
struct BulkNames : testing::TestWithParam<Route> {
  const std::string mine = pattern(bytes, 1);
  const std::string others = pattern(bytes, 2);
  ScratchDirectory scratch{test::build_folder()};
  Engine engine{[] {
    EngineOptions options;
    options.workers = 2;
    options.route = GetParam();
    return options;
  }()};

  void make_cold(const std::string& path) {
    const test::Descriptor fd(::open(path.c_str(), O_RDONLY));
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  void make(const std::string& path, const std::string& contents) {
    write_file(path, contents);
    make_cold(path);
  }
  void expect_mine(const File& file) {
    std::string got(bytes, '#');
    EXPECT_EQ(file.read_at(got.data(), bytes, 0), bytes);
    EXPECT_TRUE(same_bytes(got, mine));
  }
};

TEST_P(BulkNames, ARenameOverTheFile) {
  make(scratch / "file", mine);
  make(scratch / "new", others);
  const File file(engine, scratch / "file");
  std::filesystem::rename(scratch / "new", scratch / "file");
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
  make(scratch / "file", mine);
  const File file(engine, scratch / "file");
  std::filesystem::remove(scratch / "file");
  expect_mine(file);
}

// The existing descriptor must do if the file may not be opened again.
TEST_P(BulkNames, AFileThatMayNotBeOpenedAgain) {
  make(scratch / "file", mine);
  const File file(engine, scratch / "file");
  std::filesystem::permissions(scratch / "file", std::filesystem::perms::none);
  make(scratch / "new", others);
  std::filesystem::rename(scratch / "new", scratch / "file");
  expect_mine(file);
}

// Runs in a child of fork(); whether it said yes there.
bool in_a_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    bool worked = false;
    try {
      worked = work();
    } catch (...) {
    }
    _exit(worked ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

bool has(const File& file, const std::string& wanted) {
  // No more than a caller reads itself: a sanitizer's runtime refuses threads in a child.
  std::string got(100'000, '#');
  return file.read_at(got.data(), got.size(), 4096) == got.size() &&
         got == wanted.substr(4096, got.size());
}

TEST_P(BulkNames, AChildHasItsParentsFile) {
  make(scratch / "file", mine);
  make(scratch / "new", others);
  const File file(engine, scratch / "file");
  std::filesystem::rename(scratch / "new", scratch / "file");
  EXPECT_TRUE(in_a_child([&] {
    const Engine own = Engine::common();
    return has(File(own, file), mine);
  }));
}

TEST_P(BulkNames, AChildThatHasClosedTheDescriptor) {
  make(scratch / "file", mine);
  make(scratch / "new", others);
  const File file(engine, scratch / "file");
  const int fd = file.descriptor();
  const auto by_name = [&] {
    ::close(fd);
    ::open((scratch / "new").c_str(), O_RDONLY);  // takes that number
    const Engine own = Engine::common();
    return has(File(own, file), mine);
  };
  EXPECT_TRUE(in_a_child(by_name));
  std::filesystem::rename(scratch / "new", scratch / "file");
  write_file(scratch / "new", others);
  EXPECT_TRUE(in_a_child([&] { return error_of([&] { by_name(); }) == ESTALE; }));
}

TEST_P(BulkNames, AChildLeavesTheParentsFileAndFutures) {
  make(scratch / "file", mine);
  File file(engine, scratch / "file");
  std::string got(bytes, '#');
  Future future = file.read_at_async(got.data(), bytes, 0);
  EXPECT_TRUE(in_a_child([&] {
    if (error_of([&] { file.close(); }) != ECHILD) return false;
    future.cancel();
    return future.ready() || error_of([&] { future.then([] {}); }) == ECHILD;
  }));
  EXPECT_EQ(future.get(), bytes);
  EXPECT_TRUE(same_bytes(got, mine));
}

std::string name_of(const testing::TestParamInfo<Route>& info) {
  if (info.param == Route::automatic) return "automatic";
  return info.param == Route::buffered ? "buffered" : "direct";
}

INSTANTIATE_TEST_SUITE_P(Routes, BulkNames,
                         testing::Values(Route::automatic, Route::buffered, Route::direct),
                         name_of);

}  // namespace
}  // namespace ferry::bulk::names_test
