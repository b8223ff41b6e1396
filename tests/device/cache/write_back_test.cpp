// Writing in the background, with the marks that begin it and that make writers wait; and all of
// the cache's work with each of its optimisations off.
#include <string>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/page_cache_rig.hpp"

namespace ferry::device::cache {
namespace {

using test::page;
using test::pattern;
using test::Random;
using test::scaled;

class WriteBackTest : public test::PageCacheTest {
 protected:
  std::uint64_t dirty() const { return memory->view().shared().dirty_pages; }
};

TEST_F(WriteBackTest, BelowTheLowMarkNothingIsWritten) {
  make(64, 1, 1);
  for (std::size_t at = 0; at < 32; ++at)
    write(0, pattern(page, at), at * page);
  EXPECT_EQ(storage->writes, 0U);
  EXPECT_EQ(dirty(), 32U);
}

TEST_F(WriteBackTest, AboveItPagesAreWrittenInLargeRequests) {
  make(64, 1, 1);
  std::string model;
  for (std::size_t at = 0; at < 60; ++at) {
    const std::string data = pattern(page, at);
    write(0, data, at * page);
    model += data;
  }
  EXPECT_GT(storage->writes, 0U);
  EXPECT_LE(storage->writes, 20U);
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(dirty(), 0U);
  EXPECT_EQ(storage->contents(1), model);
  EXPECT_EQ(storage->written_bytes, model.size()) << "every byte once";
  expect_calm();
}

TEST_F(WriteBackTest, WritersWaitAtTheHighMark) {
  make(64, 1, 1);
  storage->faults.late = true;  // so that only waiting ends a flight
  for (std::size_t at = 0; at < 2000; ++at) {
    write(0, pattern(page, at), at * page);
    ASSERT_LE(dirty(), 49U) << "page " << at;
  }
  EXPECT_EQ(caches[0]->flush(0), 0);
  expect_calm();
}

TEST_F(WriteBackTest, AnErrorInTheBackgroundIsKeptForTheNextFlush) {
  make(64, 1, 1);
  storage->faults.writes_one_in = 1;
  storage->faults.error = ENOSPC;
  std::string model;
  for (std::size_t at = 0; at < 40; ++at) {
    const std::string data = pattern(page, at);
    ASSERT_EQ(write(0, data, at * page), page);
    model += data;
  }
  caches[0]->settle();
  EXPECT_GT(memory->view().inode(0).write_errors, 0U);
  EXPECT_EQ(memory->view().inode(0).write_error, ENOSPC);
  EXPECT_EQ(dirty(), 40U) << "nothing is lost";
  storage->faults.writes_one_in = 0;
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->contents(1), model);
  expect_calm();
}

// A handle that was closed meanwhile is nobody's error.
TEST_F(WriteBackTest, AClosedHandleKeepsItsPagesDirty) {
  make(64, 1, 1);
  memory->view().inode(0).write_handle = 0;
  std::string model;
  for (std::size_t at = 0; at < 40; ++at) {
    const std::string data = pattern(page, at);
    ASSERT_EQ(write(0, data, at * page), page);
    model += data;
  }
  caches[0]->settle();
  EXPECT_EQ(memory->view().inode(0).write_errors, 0U);
  EXPECT_EQ(dirty(), 40U);
  memory->view().inode(0).write_handle = 1;
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->contents(1), model);
  expect_calm();
}

// Everything is right with any combination of the optimisations.
TEST_F(WriteBackTest, SwitchesChangeNoByte) {
  Random random;
  for (unsigned bits = 0; bits < 64; ++bits) {
    const auto on = [&](unsigned bit) { return (bits >> bit & 1U) != 0; };
    make(random.one_in(2) ? 5 : 40, 1, 1, {on(0), on(1), on(2), on(3), on(4), on(5)});
    std::string model;
    for (std::uint64_t step = 0; step < scaled(500); ++step) {
      const std::size_t offset = random.below(30 * page);
      const std::size_t length = random.one_in(8) ? random.below(20 * page) : random.below(page);
      if (random.one_in(2)) {
        const std::string data = pattern(length + 1, step);
        ASSERT_EQ(write(0, data, offset), static_cast<std::int64_t>(data.size()));
        if (model.size() < offset + data.size()) model.resize(offset + data.size(), '\0');
        model.replace(offset, data.size(), data);
      } else {
        const std::string wanted = offset < model.size() ? model.substr(offset, length) : "";
        ASSERT_TRUE(test::same_bytes(read(0, offset, length), wanted)) << "switches " << bits;
      }
    }
    ASSERT_EQ(caches[0]->flush(0), 0);
    ASSERT_TRUE(test::same_bytes(storage->contents(1), model)) << "switches " << bits;
    ASSERT_EQ(storage->strangers, 0U);
    expect_calm();
  }
}

}  // namespace
}  // namespace ferry::device::cache
