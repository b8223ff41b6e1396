// Which writes a server may still lose, judged by its answers.
#include "storage/nfs/writes.hpp"

#include <cerrno>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
const char* const first = "12345678";
const char* const second = "87654321";
const char* const third = "abcdefgh";

class NfsWritesTest : public testing::Test {
 protected:
  // The result of a commit whose answer has this verifier, for an opening that has seen so much.
  int sync(const char* verifier, std::uint64_t& seen_by_it) {
    writes.committed(verifier, writes.begin_commit());
    return writes.error_since(seen_by_it);
  }
  int sync(const char* verifier) { return sync(verifier, seen); }
  // After a write, which the first server has acknowledged.
  void begin_ahead() {
    writes.acknowledged(first);
    ASSERT_TRUE(writes.begin_ahead(64 * mib));
  }

  NfsWrites writes;
  std::uint64_t seen = 0;
};

TEST_F(NfsWritesTest, ACommitAheadIsDueNowAndThenAndOneAtATime) {
  int due = 0;
  for (int i = 0; i < 15; ++i)
    due += writes.begin_ahead(mib) ? 1 : 0;
  EXPECT_EQ(due, 0);
  EXPECT_TRUE(writes.begin_ahead(mib));
  for (int i = 0; i < 40; ++i)
    EXPECT_FALSE(writes.begin_ahead(mib)) << "one is under way";
  writes.committed_ahead(first, 0);
  EXPECT_TRUE(writes.begin_ahead(mib));
}

TEST_F(NfsWritesTest, ACommitAheadThatWentWellIsNotASync) {
  begin_ahead();
  writes.committed_ahead(first, 0);
  // The server restarts: data written since the commit began may be lost.
  writes.acknowledged(first);
  EXPECT_EQ(sync(second), -EIO);
}

TEST_F(NfsWritesTest, ACommitAheadOfAServerThatStartedAnewIsToldByTheSync) {
  begin_ahead();
  writes.committed_ahead(second, 0);
  EXPECT_EQ(sync(second), -EIO);
  EXPECT_EQ(sync(second), 0) << "once";
}

TEST_F(NfsWritesTest, TheErrorOfACommitAheadIsKeptForTheSyncOrTheClose) {
  for (int round = 0; round < 2; ++round) {
    begin_ahead();
    writes.committed_ahead(nullptr, -ENOSPC);
    EXPECT_EQ(sync(first), -ENOSPC);
    EXPECT_EQ(writes.error_since(seen), 0);
  }
}

TEST_F(NfsWritesTest, ACommitAheadWithoutAnAnswerChangesNothing) {
  begin_ahead();
  writes.committed_ahead(nullptr, 0);
  EXPECT_EQ(sync(first), 0);
}

// A write acknowledged during the commit is not part of it.
TEST_F(NfsWritesTest, ALossAfterAReportedLossIsReportedToo) {
  writes.acknowledged(first);
  const std::uint64_t begun = writes.begin_commit();
  writes.acknowledged(second);
  writes.committed(second, begun);
  EXPECT_EQ(writes.error_since(seen), -EIO);
  EXPECT_EQ(sync(third), -EIO);
}

TEST_F(NfsWritesTest, EveryOpeningReportsAnErrorOnce) {
  std::uint64_t one = writes.seen_by_others();
  std::uint64_t other = writes.seen_by_others();
  writes.acknowledged(first);
  EXPECT_EQ(sync(second, one), -EIO);
  EXPECT_EQ(sync(second, one), 0);
  EXPECT_EQ(sync(second, other), -EIO);
  EXPECT_EQ(sync(second, other), 0);
  std::uint64_t late = writes.seen_by_others();
  EXPECT_EQ(sync(second, late), 0) << "opened after it was reported";
  writes.commit_failed(-ENOSPC);
  std::uint64_t next = writes.seen_by_others();
  EXPECT_EQ(sync(second, next), -ENOSPC) << "nobody has reported it";
}

TEST(NfsOpenWrites, OpeningsOfAFileHaveOneRecord) {
  NfsOpenWrites one("server file");
  NfsOpenWrites other("server file");
  NfsOpenWrites stranger("server other");
  EXPECT_EQ(one.of_file(), other.of_file());
  EXPECT_NE(one.of_file(), stranger.of_file());
  one->acknowledged(first);
  other->committed(second, other->begin_commit());
  EXPECT_EQ(other.error(), -EIO);
  EXPECT_EQ(other.error(), 0);
  EXPECT_EQ(one.error(), -EIO);
}

TEST(NfsOpenWrites, TheRecordOutlivesTheLastOpeningWhileTheServerMayLoseSomething) {
  {
    NfsOpenWrites open("server left");
    open->acknowledged(first);
  }
  {
    NfsOpenWrites again("server left");
    again->committed(second, again->begin_commit());
    EXPECT_EQ(again.error(), -EIO);
  }
  std::weak_ptr<NfsWrites> settled;
  {
    const NfsOpenWrites last("server left");
    settled = last.of_file();
  }
  EXPECT_TRUE(settled.expired());
}

TEST(NfsOpenWrites, RecordsOfClosedFilesAreBounded) {
  std::weak_ptr<NfsWrites> oldest;
  std::weak_ptr<NfsWrites> newest;
  constexpr int files = 65536 + 1;
  for (int i = 0; i < files; ++i) {
    NfsOpenWrites open("bounded " + std::to_string(i));
    open->acknowledged(first);
    if (i == 0) oldest = open.of_file();
    newest = open.of_file();
  }
  EXPECT_TRUE(oldest.expired());
  EXPECT_FALSE(newest.expired());
  for (int i = 0; i < files; ++i) {
    const NfsOpenWrites open("bounded " + std::to_string(i));
    open->committed(first, open->begin_commit());
  }
  EXPECT_TRUE(newest.expired());
}

}  // namespace
}  // namespace ferry::storage
