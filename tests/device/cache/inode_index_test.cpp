// The index of records beside a plain model: which file has which, and who gives way to a new one.
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include <ferry/device/cache/inode_index.hpp>

#include "support/depth.hpp"
#include "support/memory_io.hpp"

namespace ferry::device::cache {
namespace {

using File = std::pair<std::uint64_t, std::uint64_t>;  // number, device

class InodeIndexTest : public testing::Test {
 protected:
  static constexpr std::uint32_t records = 16;
  void expect_found(const File& file) {
    const auto known = records_.find(file);
    EXPECT_EQ(index_.find(file.first, file.second),
              known != records_.end() ? known->second : nullptr);
  }
  // As an open does.
  void use(const File& file) {
    expect_found(file);
    if (const auto known = records_.find(file); known != records_.end()) {
      if (uses_[file]++ > 0) return;
      index_.use_again(*known->second);
      std::erase(kept_, file);
      return;
    }
    Inode* const got = index_.take(file.first, file.second);
    const bool is_full = records_.size() == records;
    if (is_full && kept_.empty()) {
      EXPECT_EQ(got, nullptr);
      return;
    }
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(std::pair(got->number, got->device), file);
    if (!vacant_.empty()) {
      EXPECT_EQ(got, vacant_.front()) << "the one that was vacant longest";
      vacant_.pop_front();
    }
    if (is_full) {
      EXPECT_EQ(got, records_.at(kept_.front())) << "the one that was kept longest";
      records_.erase(kept_.front());
      kept_.pop_front();
    }
    for (const auto& [other, record] : records_)
      ASSERT_NE(record, got);
    records_[file] = got;
    uses_[file] = 1;
  }
  // As a close does.
  void leave(const File& file, bool keeps_pages) {
    if (uses_[file] == 0 || --uses_[file] > 0) return;
    Inode& record = *records_.at(file);
    // Its number changes, and not the record that has it.
    record.id = (record.id + records) & ((1U << inode_bits) - 1);
    index_.give_back(record, keeps_pages);
    if (keeps_pages) {
      kept_.push_back(file);
    } else {
      records_.erase(file);
      vacant_.push_back(&record);
    }
  }

  const test::TestCache memory_{4096, 4, records, 1};
  const View& view_ = memory_.view();
  InodeIndex index_{view_};
  std::map<File, Inode*> records_;
  std::map<File, unsigned> uses_;
  std::deque<File> kept_;  // oldest first
  std::deque<Inode*> vacant_ = [this] {
    std::deque<Inode*> all;
    for (std::uint32_t i = 0; i < records; ++i)
      all.push_back(&view_.inode(i));
    return all;
  }();
};

TEST_F(InodeIndexTest, IsLikeAPlainOne) {
  test::Random random;
  for (unsigned step = 0; step < test::scaled(20'000); ++step) {
    // Chains get long: few numbers, and as many records as chains.
    const File file{random.below(20), random.below(2)};
    if (random.one_in(2)) {
      use(file);
    } else {
      leave(file, random.one_in(2));
    }
    expect_found({random.below(20), random.below(2)});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ferry::device::cache
