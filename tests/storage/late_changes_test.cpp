#include "storage/late_changes.hpp"

#include <cerrno>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/remote_call.hpp"

namespace ferry::storage {
namespace {

TEST(LateChangesTest, AreTheSameForEveryOpeningOfAFile) {
  const auto first = LateChanges::of(1, 2);
  EXPECT_EQ(first, LateChanges::of(1, 2));
  EXPECT_NE(first, LateChanges::of(2, 1));
  EXPECT_NE(first, LateChanges::of(1, 3));
}

TEST(LateChangesTest, TheOldestOneSaysTheErrorUntilAllAreOver) {
  const auto file = LateChanges::of(1, 2);
  EXPECT_EQ(file->error(), 0);
  std::optional<LateChange> first;
  std::optional<LateChange> second;
  first.emplace(file, -ETIMEDOUT);
  second.emplace(file, -ECANCELED);
  EXPECT_EQ(file->error(), -ETIMEDOUT);
  first.reset();
  EXPECT_EQ(file->error(), -ETIMEDOUT);
  second.reset();
  EXPECT_EQ(file->error(), 0);
}

TEST(LateChangesTest, ALateCallKeepsTheRecordWhenNobodyHasTheFileOpen) {
  std::optional<LateChange> late;
  late.emplace(LateChanges::of(1, 2), -ETIMEDOUT);
  EXPECT_EQ(LateChanges::of(1, 2)->error(), -ETIMEDOUT);
  late.reset();
  EXPECT_EQ(LateChanges::of(1, 2)->error(), 0);
}

TEST(LateChangesTest, RecordsThatNobodyHasAreForgotten) {
  for (std::uint64_t inode = 0; inode < 10'000; ++inode)
    EXPECT_EQ(LateChanges::of(1, inode)->error(), 0);
}

TEST(LateChangesTest, TheFileRefusesWhatChangesOrSyncsItAndGoesOnReading) {
  RemoteFile file;
  file.opened_with(O_RDWR);
  file.changes = LateChanges::of(1, 2);
  const auto refusal = [&](Kind kind) {
    Operation operation{.kind = kind, .file = &file};
    return file.refusal(operation);
  };
  const std::vector<Kind> refused = {Kind::write, Kind::append, Kind::truncate, Kind::sync,
                                     Kind::sync_data};
  {
    const LateChange late(file.changes, -ETIMEDOUT);
    for (const Kind kind : refused)
      EXPECT_EQ(refusal(kind), -ETIMEDOUT);
    EXPECT_EQ(refusal(Kind::read), 0);
    EXPECT_EQ(refusal(Kind::file_status), 0);
  }
  for (const Kind kind : refused)
    EXPECT_EQ(refusal(kind), 0);
}

}  // namespace
}  // namespace ferry::storage
