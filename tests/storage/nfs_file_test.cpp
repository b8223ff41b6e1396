// Which writes a server may still lose, as its answers tell.
#include "storage/nfs_file.hpp"

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
const char* const first = "12345678";
const char* const second = "87654321";

TEST(NfsUnstableWrites, ACommitAheadIsDueNowAndThenAndOneAtATime) {
  NfsUnstableWrites writes;
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

TEST(NfsUnstableWrites, ACommitAheadThatWentWellIsNotASync) {
  NfsUnstableWrites writes;
  writes.acknowledged(first);
  ASSERT_TRUE(writes.begin_ahead(64 * mib));
  writes.committed_ahead(first, 0);
  // The server starts anew: what was written since the commit began may be gone.
  writes.acknowledged(first);
  EXPECT_EQ(writes.committed(second, writes.begin_commit()), -EIO);
}

TEST(NfsUnstableWrites, ACommitAheadOfAServerThatStartedAnewIsToldByTheSync) {
  NfsUnstableWrites writes;
  writes.acknowledged(first);
  ASSERT_TRUE(writes.begin_ahead(64 * mib));
  writes.committed_ahead(second, 0);
  EXPECT_EQ(writes.committed(second, writes.begin_commit()), -EIO);
  EXPECT_EQ(writes.committed(second, writes.begin_commit()), 0) << "once";
}

TEST(NfsUnstableWrites, TheErrorOfACommitAheadIsKeptForTheSyncOrTheClose) {
  NfsUnstableWrites writes;
  writes.acknowledged(first);
  ASSERT_TRUE(writes.begin_ahead(64 * mib));
  writes.committed_ahead(nullptr, -ENOSPC);
  EXPECT_EQ(writes.committed(first, writes.begin_commit()), -ENOSPC);
  EXPECT_EQ(writes.closed(), 0);
  ASSERT_TRUE(writes.begin_ahead(64 * mib));
  writes.committed_ahead(nullptr, -ENOSPC);
  EXPECT_EQ(writes.closed(), -ENOSPC);
}

TEST(NfsUnstableWrites, ACommitAheadWithoutAnAnswerChangesNothing) {
  NfsUnstableWrites writes;
  writes.acknowledged(first);
  ASSERT_TRUE(writes.begin_ahead(64 * mib));
  writes.committed_ahead(nullptr, 0);
  EXPECT_EQ(writes.committed(first, writes.begin_commit()), 0);
}

}  // namespace
}  // namespace ferry::storage
