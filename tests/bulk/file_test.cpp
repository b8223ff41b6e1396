// One file: reads, writes, errors, and closing.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "base/residency.hpp"
#include "bulk/bulk_files.hpp"
#include "bulk/lanes.hpp"
#include "support/error_of.hpp"
#include "support/in_a_child.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::bulk {
namespace {

using namespace test;

struct BulkFile : ByRoute {};

TEST_P(BulkFile, ReadsEverySizeAtEveryOffset) {
  const std::string wanted = made(1 << 20 | 777, 1);
  const File file(engine, path);
  EXPECT_EQ(file.size(), wanted.size());
  for (const bool cold : {false, true}) {
    for (const std::size_t bytes : {0UL, 1UL, 4096UL, 65537UL, 200000UL, 262144UL, 1UL << 20}) {
      for (const std::size_t offset : {0UL, 1UL, 4095UL, 4096UL, 100001UL, 1048000UL, 2000000UL}) {
        if (cold) make_cold(path);
        std::string got(bytes + 64, '#');
        // Odd addresses too.
        const std::uint64_t count = file.read_at(got.data() + offset % 2, bytes, offset);
        const std::string expected =
            offset < wanted.size() ? wanted.substr(offset, bytes) : std::string();
        ASSERT_EQ(count, expected.size()) << bytes << " at " << offset;
        ASSERT_TRUE(same_bytes(std::string_view(got).substr(offset % 2, count), expected));
        ASSERT_EQ(got[offset % 2 + bytes], '#');
      }
    }
  }
}

TEST_P(BulkFile, AlignedMemoryTakesNoStaging) {
  const std::string wanted = made(1 << 20, 2);
  make_cold(path);
  const File file(engine, path);
  AlignedBytes target(wanted.size());
  EXPECT_EQ(file.read_at(target.data(), target.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes(target.view(0, target.size()), wanted));
  EXPECT_EQ(engine.statistics().staged_tasks, 0U);
  if (GetParam() == Route::direct) {
    EXPECT_EQ(engine.statistics().direct_tasks, 16U);
  }
}

TEST_P(BulkFile, WritesWhatItIsGiven) {
  std::string wanted = pattern(500000, 3);
  for (const int extra : {0, O_DIRECT}) {
    std::filesystem::remove(path);
    File file(engine, path, O_RDWR | O_CREAT | extra);
    EXPECT_EQ(file.write_at(wanted.data(), wanted.size(), 0), wanted.size());
    const std::string middle = pattern(300000, 4);
    EXPECT_EQ(file.write_at_async(middle.data(), middle.size(), 1001).get(), middle.size());
    std::string both = wanted;
    both.replace(1001, middle.size(), middle);
    file.sync();
    file.close();
    EXPECT_TRUE(same_bytes(read_file(path), both));
  }
}

TEST_P(BulkFile, AppendsAndTruncates) {
  File file(engine, path, O_RDWR | O_CREAT | O_APPEND);
  EXPECT_EQ(file.append("abc", 3), 3U);
  EXPECT_EQ(file.append("defg", 4), 7U);
  EXPECT_EQ(file.append("", 0), 7U);
  file.truncate(5);
  EXPECT_EQ(file.size(), 5U);
  EXPECT_EQ(read_file(path), "abcde");
  const File read_only(engine, path);
  EXPECT_EQ(error_of([&] { read_only.append("f", 1); }), EBADF);
  EXPECT_EQ(error_of([&] { read_only.append("", 0); }), EBADF) << "though there is nothing to do";
}

// Their pieces would come in any order.
TEST_P(BulkFile, AppendsOneWriteAfterAnother) {
  const std::string wanted = pattern(1 << 20 | 5, 12);
  for (const int extra : {0, O_DIRECT}) {
    std::filesystem::remove(path);
    File file(engine, path, O_RDWR | O_CREAT | O_APPEND | extra);
    std::vector<Progress> told;
    const auto note = [&](const Progress& now) { told.push_back(now); };
    EXPECT_EQ(file.write_at(wanted.data(), wanted.size(), 0), wanted.size());
    EXPECT_EQ(file.write_at(wanted.data(), 7, 0, note), 7U);
    EXPECT_EQ(told.back().bytes_done, 7U);
    EXPECT_EQ(error_of([&] { file.write_at_async(wanted.data(), 1, 0); }), EINVAL);
    EXPECT_TRUE(same_bytes(read_file(path), wanted + wanted.substr(0, 7)));
  }
}

TEST_P(BulkFile, TheEndOfAFileEndsALargeRead) {
  const std::string wanted = made(1 << 20, 13);
  const File file(engine, path);
  for (const bool cold : {false, true}) {
    if (cold) make_cold(path);
    std::string got(wanted.size(), '#');
    const Future reading = file.read_at_async(got.data(), std::uint64_t{1} << 62, 0);
    ASSERT_TRUE(reading.wait_for(test::patience / 4));
    EXPECT_EQ(reading.get(), wanted.size());
    EXPECT_TRUE(same_bytes(got, wanted));
  }
}

TEST_P(BulkFile, ErrorsNameThePathAndTheRange) {
  EXPECT_EQ(error_of([&] { File(engine, scratch / "missing"); }), ENOENT);
  EXPECT_EQ(error_of([&] { File(engine, scratch.path(), O_RDWR); }), EISDIR);
  write_file(path, std::string(300000, 'x'));
  const File file(engine, path, O_WRONLY);
  std::string to(300000, ' ');
  try {
    file.read_at(to.data(), to.size(), 4096);
    FAIL() << "read from a file opened for writing";
  } catch (const TransferError& error) {
    EXPECT_EQ(error.code().value(), EBADF);
    ASSERT_EQ(error.failures().size(), 1U);
    EXPECT_EQ(error.failures()[0].path, path);
    EXPECT_EQ(error.failures()[0].offset, 4096U);
    EXPECT_EQ(error.failures()[0].bytes, 300000U);
    EXPECT_NE(std::string(error.what()).find("bytes 4096 to 304096"), std::string::npos);
  }
  EXPECT_EQ(error_of([&] { file.read_at(to.data(), 100, 0); }), EBADF);
  EXPECT_EQ(error_of([&] { file.read_at_async(to.data(), 100, UINT64_MAX - 50); }), EINVAL);
  const File readable(engine, path);
  EXPECT_EQ(error_of([&] { readable.write_at("x", 1, 0); }), EBADF);
}

TEST_P(BulkFile, AFullDiskIsAnError) {
  const File file(engine, "/dev/full", O_WRONLY);
  const std::string data(200000, 'x');
  EXPECT_EQ(error_of([&] { file.write_at(data.data(), data.size(), 0); }), ENOSPC);
  EXPECT_EQ(error_of([&] { file.write_at_async(data.data(), data.size(), 0).get(); }), ENOSPC);
}

TEST_P(BulkFile, AFileThatShrinksIsShort) {
  write_file(path, pattern(1 << 20, 5));
  const File file(engine, path);
  ASSERT_EQ(truncate(path.c_str(), 300001), 0);
  std::string to(1 << 20, ' ');
  EXPECT_EQ(file.read_at(to.data(), to.size(), 0), 300001U);
}

TEST_P(BulkFile, TellsHowFarOneCallIs) {
  const std::string wanted = made(3 << 20, 6);
  std::string got(wanted.size(), '#');
  const File file(engine, path, O_RDWR);
  std::vector<Progress> told;
  const auto note = [&](const Progress& now) { told.push_back(now); };
  EXPECT_EQ(file.read_at(got.data(), got.size(), 0, note), got.size());
  EXPECT_TRUE(same_bytes(got, wanted));
  EXPECT_EQ(file.write_at(got.data(), 10, 0, note), 10U);
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told[told.size() - 2].bytes_done, wanted.size());
  EXPECT_EQ(told.back().bytes_done, told.back().bytes_total);
  EXPECT_EQ(told.back().bytes_total, 10U);
  const auto refuse = [](const Progress&) { throw Error(EINTR, "enough"); };
  EXPECT_EQ(error_of([&] { file.read_at(got.data(), got.size(), 0, refuse); }), EINTR);
}

TEST_P(BulkFile, ClosedFilesRefuse) {
  write_file(path, "abc");
  File file(engine, path);
  file.close();
  file.close();
  char to[3];
  EXPECT_EQ(error_of([&] { file.read_at(to, 3, 0); }), EBADF);
  EXPECT_EQ(error_of([&] { file.read_at_async(to, 3, 0); }), EBADF);
  EXPECT_EQ(error_of([&] { file.size(); }), EBADF);
}

TEST_P(BulkFile, ClosedFilesLeaveNoDescriptors) {
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  write_file(path, pattern(300000, 6));
  std::string to(300000, ' ');
  const auto use_once = [&] {
    const File file(engine, path);
    file.read_at(to.data(), to.size(), 0);
  };
  for (int i = 0; i < 8; ++i) {  // the workers have started
    make_cold(path);
    use_once();
  }
  constexpr int times = 20;
  const auto before = open_descriptors();
  for (int i = 0; i < times; ++i)
    use_once();
  // On a busy machine a worker may begin only now, and have its first queue.
  EXPECT_LT(open_descriptors(), before + times);
}

INSTANTIATE_TEST_SUITE_P(Routes, BulkFile, every_route, name_of);

TEST(BulkOptions, RefusesWhatCannotBe) {
  for (const EngineOptions& options : {EngineOptions{.workers = 1000}, EngineOptions{.depth = 65},
                                       EngineOptions{.task_bytes = 1000}})
    EXPECT_EQ(error_of([&] { Engine{options}; }), EINVAL);
}

TEST(BulkOptions, ExplainsWhatItChose) {
  const ScratchDirectory scratch(build_folder());
  write_file(scratch / "file", pattern(1 << 20, 7));
  const Engine engine;
  const Explanation hot = engine.explain(scratch / "file");
  EXPECT_EQ(hot.route, "buffered");
  EXPECT_EQ(hot.file_bytes, 1U << 20);
  EXPECT_EQ(hot.resident_bytes, hot.file_bytes);
  EXPECT_EQ(hot.workers, 1U);  // so little is copied by one thread
  EXPECT_EQ(hot.task_bytes, 1U << 20);
  EXPECT_GE(hot.reasons.size(), 3U);
  const EngineOptions wish{.depth = 5, .route = Route::direct};
  const Explanation pinned = Engine(wish).explain(scratch / "file");
  EXPECT_EQ(pinned.route, "direct");
  EXPECT_EQ(pinned.depth, 5U);
  EXPECT_EQ(error_of([&] { static_cast<void>(engine.explain(scratch / "missing")); }), ENOENT);
}

// Large tasks are for copies. If the page cache lacks a range that no sample has hit, they need
// slots made for smaller tasks.
TEST(BulkEngine, TasksOfCopiesAreCutWhereTheyAreNone) {
  constexpr std::size_t mib = 1 << 20;
  const OnDisk disk;
  const std::string wanted = disk.made(40 * mib + 12345, 8);
  make_cold(disk.path, 3 * mib, 6 * mib);
  const Engine engine(EngineOptions{.workers = 1});
  const std::uint64_t resident = engine.explain(disk.path).resident_bytes;
  if (resident == wanted.size()) GTEST_SKIP() << "the kernel kept all of it in the page cache";
  std::string got(wanted.size() + 1, '#');
  const File file(engine, disk.path);
  EXPECT_EQ(file.read_at(got.data() + 1, wanted.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes(got.substr(1), wanted));
  const EngineStatistics after = engine.statistics();
  EXPECT_GT(after.staged_tasks, 4U) << "pieces of 256 KiB";
  EXPECT_LT(after.copied_tasks, 34 * mib / (2 * mib)) << "tasks of several MiB";
}

TEST(BulkEngine, TheCommonOneIsSharedWhileHeld) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", "abc");
  const Engine one = Engine::common();
  const Engine two = Engine::common();
  const File file(one, scratch / "file");
  char to[3];
  file.read_at(to, 3, 0);
  EXPECT_EQ(two.statistics().bytes_read, 3U);
}

TEST(BulkEngine, IsFoundOrMadeForAFileThatNamesNone) {
  const OnDisk disk;
  const std::string wanted = disk.made(300000, 4);
  std::string got(wanted.size(), '#');
  const File alone(disk.path);
  EXPECT_EQ(alone.read_at(got.data(), got.size(), 0), got.size());
  EXPECT_TRUE(same_bytes(got, wanted));
  const Engine engine = Engine::common();  // the same, as the file holds it
  EXPECT_EQ(engine.statistics().bytes_read, got.size());
  EXPECT_EQ(error_of([&] { const File file(disk.scratch / "none"); }), ENOENT);
}

TEST(BulkFiles, OfDirectoriesAreRefused) {
  const ScratchDirectory scratch(build_folder());
  const Engine engine;
  EXPECT_EQ(error_of([&] { const File file(engine, scratch / "."); }), EISDIR);
  EXPECT_EQ(error_of([&] { static_cast<void>(engine.explain(scratch / ".")); }), EISDIR);
  const auto contents = engine.read_files(std::vector<std::string>{scratch / "."});
  EXPECT_EQ(contents.at(0).error_number, EISDIR);
}

TEST(BulkFiles, ShowTheirDescriptor) {
  const ScratchDirectory scratch(build_folder());
  write_file(scratch / "file", "0123456789");
  File file(scratch / "file");
  std::string got(4, '#');
  EXPECT_EQ(file.read_at(got.data(), 4, 3), 4U);
  EXPECT_EQ(lseek(file.descriptor(), 0, SEEK_CUR), 0);  // transfers leave it alone
  EXPECT_EQ(::read(file.descriptor(), got.data(), 4), 4);
  EXPECT_EQ(got, "0123");
}

TEST(BulkEngine, ReadsManySmallFiles) {
  const ScratchDirectory scratch;
  std::vector<std::string> paths;
  std::vector<std::string> wanted;
  for (std::size_t i = 0; i < 100; ++i) {
    paths.push_back(scratch / ("file" + std::to_string(i)));
    wanted.push_back(pattern(i == 50 ? 3 << 20 : i * 777, i));
    if (i != 70) write_file(paths.back(), wanted.back());
  }
  paths.push_back(scratch.path());
  const Engine engine;
  const std::vector<Contents> contents = engine.read_files(paths);
  ASSERT_EQ(contents.size(), paths.size());
  for (std::size_t i = 0; i < 100; ++i) {
    if (i == 70) {
      EXPECT_EQ(contents[i].error_number, ENOENT);
      continue;
    }
    ASSERT_EQ(contents[i].error_number, 0) << i;
    const std::string_view got(reinterpret_cast<const char*>(contents[i].data), contents[i].bytes);
    EXPECT_TRUE(same_bytes(got, wanted[i])) << i;
  }
  EXPECT_EQ(contents[100].error_number, EISDIR);
  EXPECT_TRUE(engine.read_files({}).empty());
}

// If a storage refuses a child of fork(), the error says what to do.
TEST(BulkFiles, ErrorsOfAnotherProcesssStorageSayWhatToDo) {
  class Refusing final : public storage::Storage {
   public:
    std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions&) override {
      return nullptr;
    }
    storage::Description describe() const override { return {}; }
    storage::Description describe_path(const std::string&) override {
      storage::Description description;
      description.problem = "start processes by spawn";
      return description;
    }
  } refusing;
  EXPECT_EQ(error_on_path(refusing, -ENOTCONN, "ceph:/f").reason(),
            "ceph:/f: start processes by spawn");
  EXPECT_EQ(error_on_path(refusing, -ENOTCONN, "ceph:/f").code().value(), ENOTCONN);
  EXPECT_EQ(error_on_path(refusing, -ENOENT, "ceph:/f").reason(), "ceph:/f");
}

// A device, like a server, may take any time for a call, so the storage's threads make it.
TEST(BulkEngine, WorkersMakeNoCallThatMayHang) {
  constexpr std::size_t mib = 1 << 20;
  const Engine engine(EngineOptions{.workers = 1});
  std::string bytes(mib, 'x');
  const File sink(engine, "/dev/null", O_WRONLY);
  EXPECT_EQ(sink.write_at_async(bytes.data(), bytes.size(), 0).get(), bytes.size());
  const File zeros(engine, "/dev/zero");
  EXPECT_EQ(zeros.read_at_async(bytes.data(), bytes.size(), 0).get(), bytes.size());
  EXPECT_EQ(bytes, std::string(mib, '\0'));
  EXPECT_EQ(engine.statistics().copied_tasks, 0U);
  EXPECT_GE(engine.statistics().cached_tasks, 2U);
}

TEST(BulkEngine, IsRefusedInAChild) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", pattern(1 << 20, 8));
  const Engine engine = Engine::common();
  const File file(engine, scratch / "file");
  std::string to(1 << 20, ' ');
  ASSERT_EQ(file.read_at_async(to.data(), to.size(), 0).get(), to.size());
  const auto work = [&] {
    const bool refused = error_of([&] { file.read_at(to.data(), to.size(), 0); }) == ECHILD;
    const Engine own = Engine::common();
    const File again(own, scratch / "file");
#ifdef __SANITIZE_THREAD__  // its runtime refuses threads in such a child: what needs none must do
    const bool works = again.read_at(to.data(), 4096, 0) == 4096;
#else
    const bool works = again.read_at_async(to.data(), to.size(), 0).get() == to.size();
#endif
    return refused && works;
  };
  EXPECT_EQ(in_a_child(work), true);
}

TEST(Residency, TellsHotFromCold) {
  const ScratchDirectory scratch(build_folder());
  write_file(scratch / "file", pattern(1 << 20, 9));
  const Descriptor fd(::open((scratch / "file").c_str(), O_RDONLY));
  EXPECT_EQ(resident_bytes(fd, 0, 1 << 20), 1U << 20);
  EXPECT_EQ(sample_residency(fd, 0, 1 << 20), 1U << 20);
  EXPECT_EQ(resident_bytes(fd, 0, 0), 0U);
  make_cold(scratch / "file");
  EXPECT_EQ(resident_bytes(fd, 0, 1 << 20), 0U);
  EXPECT_LT(sample_residency(fd, 0, 1 << 20).value_or(1 << 20), 1U << 20);
}

}  // namespace
}  // namespace ferry::bulk
