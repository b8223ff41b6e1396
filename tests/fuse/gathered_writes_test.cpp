// Small writes that wait for more: when they reach the storage, and who learns what went wrong.
#include "fuse/gathered_writes.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "fuse/mapped_files.hpp"
#include "storage/sync_file.hpp"
#include "support/depth.hpp"
#include "support/failing_storage.hpp"
#include "support/files.hpp"

namespace {

using ferry::fuse::GatheredWrites;
using ferry::fuse::MappedFile;
using ferry::fuse::MappedFilePointer;
using ferry::storage::Kind;
using ferry::storage::Operation;
using ferry::test::pattern;
using ferry::test::Random;

class Gathering : public testing::Test {
 protected:
  // What the tree does with a request to open.
  std::uint64_t open(std::uint64_t node, MappedFilePointer& opened) {
    Operation operation{.kind = Kind::open, .path = path, .flags = O_RDWR};
    EXPECT_EQ(calls.run(operation), 0);
    opened = std::make_shared<MappedFile>();
    opened->node = node;
    opened->file = std::move(operation.opened);
    opened->written.file = opened->file.get();
    return files.add(opened);
  }
  std::int64_t write(MappedFile& by, std::uint64_t offset, const std::string& data,
                     bool at_once = false) {
    return by.gathered->write(calls, by.written, offset, data, at_once);
  }
  std::string stored() { return storage.contents(path); }
  std::uint64_t writes() { return storage.other_writes; }

  static constexpr const char* path = "f";
  ferry::test::FailingStorage storage{Random()};
  ferry::storage::SyncCalls calls{storage};
  ferry::fuse::MappedFiles files;
  MappedFilePointer file;
  const std::uint64_t number = open(7, file);
};

TEST_F(Gathering, ManyBecomeOne) {
  const std::string data = pattern(GatheredWrites::bytes_max, 1);
  for (std::size_t at = 0; at < data.size(); at += 4096)
    ASSERT_EQ(write(*file, at, data.substr(at, 4096)), 4096);
  EXPECT_EQ(writes(), 0U);
  EXPECT_EQ(write(*file, data.size(), "more"), 4);
  EXPECT_EQ(writes(), 1U);
  EXPECT_EQ(stored(), data);
  files.close(calls, 7, number);
  EXPECT_EQ(writes(), 2U);
  EXPECT_EQ(stored(), data + "more");
}

TEST_F(Gathering, WhatFollowsNoOtherWriteGoesAtOnce) {
  EXPECT_EQ(write(*file, 10, "far"), 3);
  EXPECT_EQ(stored(), std::string(10, '\0') + "far");
  EXPECT_EQ(write(*file, 13, "next"), 4);
  EXPECT_EQ(writes(), 1U);
  EXPECT_EQ(write(*file, 0, "back"), 4);  // after what was before it
  EXPECT_EQ(stored(), "back" + std::string(6, '\0') + "farnext");
  EXPECT_EQ(write(*file, 4, "sync", true), 4);
  EXPECT_EQ(stored().substr(0, 8), "backsync");
}

TEST_F(Gathering, OtherOpenFilesOfTheNodeSettleIt) {
  MappedFilePointer other;
  const std::uint64_t other_number = open(7, other);
  EXPECT_EQ(write(*file, 0, "first"), 5);
  EXPECT_EQ(write(*other, 0, "sec"), 3);
  EXPECT_EQ(stored(), "first");
  files.close(calls, 7, number);
  EXPECT_EQ(stored(), "secst");
  EXPECT_EQ(write(*other, 3, "ond"), 3);
  files.settle(calls, 8);  // another node
  EXPECT_EQ(stored(), "secst");
  files.settle_all(calls);
  EXPECT_EQ(stored(), "second");
  files.close(calls, 7, other_number);
}

TEST_F(Gathering, ErrorsWaitForTheFileThatWrote) {
  MappedFilePointer other;
  open(7, other);
  storage.faults.writes = 1;
  storage.faults.error = ENOSPC;
  EXPECT_EQ(write(*file, 0, "lost"), 4);
  EXPECT_EQ(write(*other, 0, "x", true), -ENOSPC);  // its own
  EXPECT_EQ(other->written.late_error.exchange(0), 0);
  storage.faults.stop();
  EXPECT_EQ(write(*file, 4, "more"), -ENOSPC);
  EXPECT_EQ(write(*file, 4, "more"), 4);
  files.close_all(calls);
  EXPECT_EQ(stored(), std::string(4, '\0') + "more");
}

TEST_F(Gathering, AFileWithOtherNamesGathersNothing) {
  EXPECT_EQ(write(*file, 0, "one"), 3);
  files.note_other_names(7);
  EXPECT_EQ(write(*file, 3, "two"), 3);
  EXPECT_EQ(stored(), "onetwo");
}

// Several threads, like a server's, and one that settles all the time: beside a plain string.
TEST_F(Gathering, RandomWritesOfManyThreads) {
  Random random;
  storage.faults.short_writes = 3;
  std::atomic<bool> ends{false};
  std::jthread settles([&] {
    ferry::storage::SyncCalls own(storage);
    while (!ends)
      files.settle_all(own);
  });
  std::vector<std::pair<std::uint64_t, MappedFilePointer>> opened(3);
  for (auto& [its_number, one] : opened)
    its_number = open(7, one);
  std::string wanted;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < ferry::test::scaled(3000); ++i) {
    auto& [its_number, one] = opened[random.below(random.one_in(5) ? opened.size() : 1)];
    if (random.one_in(50)) {
      files.close(calls, 7, its_number);
      its_number = open(7, one);
    }
    if (random.one_in(20)) {
      files.settle(calls, 7);
      ASSERT_EQ(stored(), wanted);
    }
    if (random.one_in(5)) at = random.below(wanted.size() + 10);
    const std::string data = pattern(random.between(1, 3000), random.bits());
    const std::int64_t moved = write(*one, at, data, random.one_in(20));
    ASSERT_GT(moved, 0);
    const auto bytes = static_cast<std::size_t>(moved);
    if (wanted.size() < at + bytes) wanted.resize(at + bytes, '\0');
    wanted.replace(at, bytes, data, 0, bytes);
    at += bytes;
  }
  ends = true;
  settles.join();
  files.close_all(calls);
  EXPECT_EQ(stored(), wanted);
}

}  // namespace
