#include "storage/sync_file.hpp"

#include <chrono>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/error.hpp>

#include "storage/router.hpp"
#include "support/failing_storage.hpp"
#include "support/fake_storage.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

TEST(SyncFiles, MoveAllBytesThoughTheStorageMovesFewer) {
  test::FailingStorage storage{test::Random(1)};
  storage.faults.short_reads = storage.faults.short_writes = 2;
  SyncFile file(storage);
  ASSERT_EQ(file.open("name", O_RDWR | O_CREAT), 0);
  std::string text(5000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>('a' + i % 23);
  EXPECT_EQ(file.write(text.data(), text.size(), 10), 5000);
  std::string back(6000, '-');
  EXPECT_EQ(file.read(back.data(), back.size(), 10), 5000);  // that is where it ends
  EXPECT_EQ(back, text + std::string(1000, '-'));
  EXPECT_GT(storage.injected, 0U);
}

TEST(SyncFiles, ReturnTheErrorsOfTheStorage) {
  test::FailingStorage storage{test::Random(1)};
  SyncFile file(storage);
  ASSERT_EQ(file.open("name", O_RDWR | O_CREAT), 0);
  storage.faults.reads = storage.faults.writes = storage.faults.syncs = 1;
  storage.faults.error = ENOSPC;
  char byte = 0;
  EXPECT_EQ(file.read(&byte, 1, 0), -ENOSPC);
  EXPECT_EQ(file.write(&byte, 1, 0), -ENOSPC);
  EXPECT_EQ(file.sync(), -ENOSPC);
  EXPECT_EQ(file.close(), 0);
  EXPECT_FALSE(file.is_open());
}

TEST(SyncFiles, AreClosedByTheirDestructor) {
  test::FakeStorage storage;
  SyncCalls calls(storage);
  {
    SyncFile file(calls);
    EXPECT_FALSE(file.is_open());
    ASSERT_EQ(file.open("name", O_RDONLY), 0);
    Status status;
    EXPECT_EQ(file.status(status), 0);
    EXPECT_EQ(status.size_bytes, 4711U);
  }
  { const SyncFile never_opened(calls); }
  EXPECT_EQ(storage.counts.closed, 1);
  EXPECT_EQ(storage.counts.files, 0);
}

TEST(SyncFiles, DoWhatTheSystemCallsDo) {
  const auto storage = make_router();
  const test::ScratchDirectory folder;
  SyncFile file(*storage);
  EXPECT_EQ(file.open(folder / "file", O_RDWR), -ENOENT);
  EXPECT_FALSE(file.is_open());
  ASSERT_EQ(file.open(folder / "file", O_RDWR | O_CREAT, 0644), 0);
  EXPECT_EQ(file.write("abcdef", 6, 0), 6);
  EXPECT_EQ(file.truncate(4), 0);
  EXPECT_EQ(file.sync(), 0);
  std::string text(8, '-');
  EXPECT_EQ(file.read(text.data(), text.size(), 1), 3);
  EXPECT_EQ(text, "bcd-----");
}

TEST(SyncCallsAtOnce, WaitNoLongerThanTheyAreTold) {
  test::FakeStorage storage;
  SyncCalls calls(storage);
  SyncFile file(calls);
  ASSERT_EQ(file.open("name", O_RDONLY), 0);
  storage.hold();
  char byte = 0;
  iovec vector{&byte, 1};
  Operation read{.kind = Kind::read, .file = file.get(), .vectors = {&vector, 1}};
  calls.queue().submit(read);
  EXPECT_EQ(calls.next_within(std::chrono::nanoseconds(0)), nullptr);
  EXPECT_EQ(calls.next_within(std::chrono::milliseconds(2)), nullptr);
  EXPECT_EQ(storage.counts.held, 1);
  std::thread other([&] { storage.release(); });
  EXPECT_EQ(&calls.next(), &read);
  other.join();
  EXPECT_EQ(read.result, 1);
}

TEST(CheckedResults, ThrowWhatFailedAndWhy) {
  EXPECT_EQ(checked(7, "reading"), 7);
  try {
    checked(-ENOSPC, "writing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOSPC);
    EXPECT_EQ(error.reason(), "writing");
  }
}

}  // namespace
}  // namespace ferry::storage
