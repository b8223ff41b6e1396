// Others change files that are served, with plain system calls: nobody reads what was there before.
#include <atomic>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "daemon/daemon_rig.hpp"
#include "support/depth.hpp"
#include "support/other_process.hpp"

namespace {

using ferry::daemon::Client;
using ferry::test::DaemonRig;
using ferry::test::Descriptor;
using ferry::test::eventually;
using ferry::test::OfferedFile;
using ferry::test::OtherProcess;
using ferry::test::same_bytes;
using ferry::test::status_of;
using Command = OtherProcess::Command;

constexpr std::uint64_t file_bytes = 300'000;

TEST(DaemonCoherence, EveryKindOfChangeEndsTheServing) {
  OtherProcess other;
  DaemonRig rig;
  std::uint64_t seed = 1;
  const std::string path = rig.file("data", OtherProcess::data_of(seed, file_bytes));
  OfferedFile file(rig.client, path);
  std::string wanted = OtherProcess::data_of(seed, file_bytes);
  const auto served_again = [&] {
    ASSERT_TRUE(eventually([&] { return file.offer() == 0; }));
    std::string got;
    ASSERT_EQ(file.read(got, file_bytes * 2, 0), static_cast<std::int64_t>(wanted.size()));
    EXPECT_TRUE(same_bytes(got, wanted));
  };
  served_again();
  std::string got;
  struct Change {
    Command command;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  for (const auto& [command, offset, bytes] : {Change{Command::write, 0, file_bytes},
                                               {Command::append, 0, 1000},
                                               {Command::truncate, 70'001, 0},
                                               {Command::write, 100, 5},
                                               {Command::truncate, 90'000, 0}}) {
    ++seed;
    ASSERT_EQ(other.ask(command, path, offset, bytes, seed), 0);
    EXPECT_EQ(file.try_read(got, 100, 0), Client::gone);
    const std::string data = OtherProcess::data_of(seed, bytes);
    if (command == Command::truncate) wanted.resize(offset);
    if (command == Command::append) wanted += data;
    if (command == Command::write) wanted.replace(offset, bytes, data);
    served_again();
  }
  // A mapping that stays: the file is not served while it does.
  ASSERT_EQ(other.ask(Command::map, path, 0, 4096), 0);
  EXPECT_EQ(file.try_read(got, 100, 0), Client::gone);
  EXPECT_EQ(file.offer(), EBUSY);
  ASSERT_EQ(other.ask(Command::store, path, 10, 100, 99), 0);
  wanted.replace(10, 100, OtherProcess::data_of(99, 100));
  ASSERT_EQ(other.ask(Command::unmap, path), 0);
  served_again();
  // The name is another file's; the descriptor keeps the old one.
  ASSERT_EQ(other.ask(Command::replace, path, 0, 5000, 7), 0);
  ASSERT_EQ(file.read(got, file_bytes, 0), static_cast<std::int64_t>(wanted.size()));
  EXPECT_TRUE(same_bytes(got, wanted));
  OfferedFile anew(rig.client, path);
  ASSERT_EQ(anew.read(got, file_bytes, 0), 5000);
  EXPECT_TRUE(same_bytes(got, OtherProcess::data_of(7, 5000)));
  EXPECT_GE(status_of(rig.socket()).breaks, 6U);
}

// The kernel lets this one pass by a read lease, and reports it to inotify.
TEST(DaemonCoherence, OpeningForReadingMayEmptyAFile) {
  OtherProcess other;
  DaemonRig rig;
  const std::string path = rig.file("data", OtherProcess::data_of(1, file_bytes));
  OfferedFile file(rig.client, path);
  std::string got;
  for (std::uint64_t seed = 2; seed < 20; ++seed) {
    ASSERT_TRUE(eventually([&] { return file.offer() == 0; }));
    ASSERT_EQ(file.read(got, file_bytes, 0), static_cast<std::int64_t>(file_bytes));
    const Descriptor emptied(open(path.c_str(), O_RDONLY | O_TRUNC | O_CLOEXEC));
    ASSERT_GE(static_cast<int>(emptied), 0);
    ASSERT_TRUE(eventually([&] { return file.try_read(got, 100, 0) == Client::gone; }));
    ASSERT_EQ(other.ask(Command::write, path, 0, file_bytes, seed), 0);
    ASSERT_TRUE(eventually([&] { return file.offer() == 0; }));
    ASSERT_EQ(file.read(got, file_bytes, 0), static_cast<std::int64_t>(file_bytes));
    EXPECT_TRUE(same_bytes(got, OtherProcess::data_of(seed, file_bytes)));
  }
}

// A read that begins after a change was complete sees it. Numbers of changes stand in for time:
// `complete` is stored after a change, `begun` before one.
TEST(DaemonCoherence, ReadersNeverSeeWhatWasThereBefore) {
  OtherProcess other;
  DaemonRig rig;
  ferry::test::Random random;
  const std::string path = rig.file("data", OtherProcess::data_of(1, file_bytes));
  std::atomic<std::uint64_t> complete{1};
  std::atomic<std::uint64_t> begun{1};
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> hits{0};
  const std::uint64_t changes = ferry::test::scaled(300);
  ferry::test::at_once("readers and a writer", 3, random, [&](std::uint32_t index, auto& own) {
    if (index == 0) {
      for (std::uint64_t change = 2; change < 2 + changes; ++change) {
        begun.store(change);
        ASSERT_EQ(other.ask(Command::write, path, 0, file_bytes, change), 0);
        complete.store(change);
        // Some reads between changes are to be hits.
        const std::uint64_t before = hits.load();
        eventually([&] { return hits.load() > before; }, std::chrono::seconds(2));
      }
      ends.store(true);
      return;
    }
    OfferedFile file(rig.client, path);
    std::string got;
    while (!ends.load()) {
      const std::uint64_t first = complete.load();
      const std::uint64_t offset = own.below(file_bytes - 4096);
      const std::int64_t n = file.try_read(got, 1 + own.below(4096), offset);
      const std::uint64_t last = begun.load();
      if (n == Client::gone) file.offer();
      if (n < 0) continue;
      hits.fetch_add(1);
      bool found = false;
      for (std::uint64_t seed = first; seed <= last && !found; ++seed) {
        found = true;
        for (std::size_t at = 0; at < got.size() && found; ++at)
          found = got[at] == static_cast<char>(ferry::test::byte_of(seed, offset + at));
      }
      ASSERT_TRUE(found) << "not the file after change " << first << " to " << last;
    }
  });
  EXPECT_GT(hits.load(), changes / 2);
}

TEST(DaemonCoherence, TheEndOfADaemonEndsTheServing) {
  DaemonRig rig;
  OfferedFile file(rig.client, rig.file("data", "contents"));
  std::string got;
  ASSERT_EQ(file.read(got, 100, 0), 8);
  rig.end();
  EXPECT_EQ(file.try_read(got, 100, 0), Client::gone);
  EXPECT_NE(file.offer(), 0);
}

}  // namespace
