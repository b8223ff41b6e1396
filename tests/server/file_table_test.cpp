#include "server/file_table.hpp"

#include <atomic>
#include <cerrno>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/control.hpp>

#include "support/depth.hpp"
#include "support/within.hpp"

namespace ferry::server {
namespace {

struct CountedFile final : storage::File {
  explicit CountedFile(std::atomic<int>& all) : count(all) { ++count; }
  ~CountedFile() override {
    alive = false;
    --count;
  }
  std::atomic<int>& count;
  std::atomic<bool> alive{true};
};

std::int32_t insert_into(FileTable& table, std::atomic<int>& files) {
  std::unique_ptr<storage::File> file = std::make_unique<CountedFile>(files);
  return table.insert(file);
}
void close_in(FileTable& table, std::int32_t handle) {
  ASSERT_TRUE(table.begin_close(handle));
  ASSERT_TRUE(table.unused(handle));
  delete table.finish_close(handle);
}

void use_and_close_in(FileTable& table, std::int32_t handle) {
  ASSERT_NE(table.acquire(handle), nullptr);
  table.release(handle);
  close_in(table, handle);
}

class Table : public testing::Test {
 protected:
  std::int32_t insert(storage::File** made = nullptr) {
    std::unique_ptr<storage::File> file = std::make_unique<CountedFile>(files);
    if (made != nullptr) *made = file.get();
    const std::int32_t handle = table.insert(file);
    EXPECT_EQ(handle < 0, file != nullptr);
    return handle;
  }
  void close(std::int32_t handle) { close_in(table, handle); }
  std::atomic<int> files{0};
  FileTable table{4};
};

TEST_F(Table, HandsOutHandlesFromOneUp) {
  storage::File* file = nullptr;
  const std::int32_t handle = insert(&file);
  EXPECT_GE(handle, 1);
  EXPECT_EQ(table.acquire(handle), file);
  table.release(handle);
  EXPECT_EQ(table.open_handles(), std::vector<std::int32_t>{handle});
  close(handle);
  EXPECT_TRUE(table.open_handles().empty());
  EXPECT_EQ(files, 0);
}

TEST_F(Table, RefusesHandlesThatNameNoFile) {
  const std::int32_t handle = insert();
  for (const std::int32_t wrong :
       {0, -1, 1, 2, 3, handle + 1, handle + 4, handle + 0x10000, handle - 0x10000, -handle,
        handle | 3, handle | 0xffff, handle ^ std::numeric_limits<std::int32_t>::min(),
        std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
    EXPECT_EQ(table.acquire(wrong), nullptr) << wrong;
    EXPECT_FALSE(table.begin_close(wrong)) << wrong;
  }
  close(handle);
}

TEST_F(Table, RefusesAHandleAfterItsFileWasClosed) {
  std::vector<std::int32_t> others;
  for (int i = 0; i < 3; ++i)
    others.push_back(insert());
  const std::int32_t old = insert();
  close(old);
  const std::int32_t young = insert();
  EXPECT_NE(young, old);
  EXPECT_EQ(device::handle_index(young, 4), device::handle_index(old, 4))
      << "or this tests nothing";
  EXPECT_EQ(table.acquire(old), nullptr);
  EXPECT_FALSE(table.begin_close(old));
  use_and_close_in(table, young);
  for (const std::int32_t handle : others)
    close(handle);
}

// One that was kept for long, beside many others that come and go.
TEST(LongLived, AHandleStaysClosed) {
  std::atomic<int> files{0};
  FileTable table(1000);
  const std::int32_t old = insert_into(table, files);
  close_in(table, old);
  for (int i = 0; i < 100'000; ++i) {
    const std::int32_t handle = insert_into(table, files);
    ASSERT_GT(handle, 0);
    ASSERT_NE(handle, old) << "after " << i << " openings";
    ASSERT_EQ(table.acquire(old), nullptr) << "after " << i << " openings";
    close_in(table, handle);
  }
}

// The last generation of every slot is used before the first one comes again.
TEST(LongLived, AHandleComesAgainWhenAllOthersHaveBeen) {
  std::atomic<int> files{0};
  constexpr std::uint32_t slots = 4;
  constexpr std::uint32_t generation_max = (1U << 29) - 1;  // of 31 bits, 2 name the slot
  FileTable table(slots, generation_max - 1);
  std::vector<std::int32_t> handles;
  for (std::uint32_t i = 0; i < 3 * slots; ++i) {
    handles.push_back(insert_into(table, files));
    const std::uint32_t generation = i / slots < 2 ? generation_max - 1 + i / slots : 1;
    EXPECT_EQ(static_cast<std::uint32_t>(handles.back()), generation * slots + i % slots);
    use_and_close_in(table, handles.back());
  }
  EXPECT_EQ(std::set<std::int32_t>(handles.begin(), handles.end()).size(), handles.size());
}

TEST_F(Table, IsFullAndHasRoomAgain) {
  std::set<std::int32_t> handles;
  for (int i = 0; i < 4; ++i)
    handles.insert(insert());
  EXPECT_EQ(handles.size(), 4U);
  EXPECT_EQ(insert(), -ENFILE);
  EXPECT_EQ(files, 4) << "the refused file still belongs to the caller, who dropped it";
  close(*handles.begin());
  handles.erase(handles.begin());
  handles.insert(insert());
  EXPECT_EQ(handles.size(), 4U);
  for (const std::int32_t handle : handles)
    close(handle);
}

TEST_F(Table, KeepsAFileThatIsInUseUntilItIsReleased) {
  const std::int32_t handle = insert();
  ASSERT_NE(table.acquire(handle), nullptr);
  ASSERT_NE(table.acquire(handle), nullptr);
  ASSERT_TRUE(table.begin_close(handle));
  EXPECT_FALSE(table.begin_close(handle)) << "a second close";
  EXPECT_EQ(table.acquire(handle), nullptr) << "nobody new";
  EXPECT_FALSE(table.unused(handle));
  table.release(handle);
  EXPECT_FALSE(table.unused(handle));
  table.release(handle);
  EXPECT_TRUE(table.unused(handle));
  EXPECT_TRUE(table.open_handles().empty());
  delete table.finish_close(handle);
}

TEST_F(Table, GenerationsGoRoundWithoutLeavingThePositiveNumbers) {
  FileTable one(1, std::numeric_limits<std::int32_t>::max() - 500);
  std::int32_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int32_t handle = insert_into(one, files);
    ASSERT_GT(handle, 0) << "round " << i;
    ASSERT_NE(handle, last);
    last = handle;
    use_and_close_in(one, handle);
  }
}

// A handle has bits for more files than a table of three.
TEST(SmallTable, RefusesAnIndexBehindItsLast) {
  FileTable table(3);
  for (std::int32_t handle = 1; handle < 64; ++handle) {
    EXPECT_EQ(table.acquire(handle), nullptr) << handle;
    EXPECT_FALSE(table.begin_close(handle)) << handle;
    EXPECT_EQ(table.path_of(handle), "") << handle;
  }
}

TEST(LargeTable, ItsLastIndexWorks) {
  std::atomic<int> files{0};
  FileTable table(65'536);
  std::vector<std::int32_t> handles;
  for (int i = 0; i < 65'536; ++i) {
    handles.push_back(insert_into(table, files));
    ASSERT_GT(handles.back(), 0);
  }
  EXPECT_EQ(device::handle_index(handles.back(), 65'536), 65'535U);
  for (const std::int32_t handle : handles)
    use_and_close_in(table, handle);
  EXPECT_EQ(files, 0);
}

// Threads use files through handles that others close and reopen concurrently.
TEST_F(Table, NobodyEverHoldsAClosedFile) {
  constexpr int slots = 4;
  std::vector<std::atomic<std::int32_t>> handles(slots);
  for (auto& handle : handles)
    handle = insert();
  std::atomic<bool> stop{false};
  std::atomic<int> dead{0};
  std::atomic<std::uint64_t> used{0};
  std::vector<std::jthread> users;
  for (int i = 0; i < 3; ++i) {
    users.emplace_back([&, random = test::Random().fork()]() mutable {
      while (!stop) {
        const std::int32_t handle = handles[random.below(slots)];
        auto* file = static_cast<CountedFile*>(table.acquire(handle));
        if (file == nullptr) continue;
        if (!file->alive) ++dead;
        if (random.one_in(8)) std::this_thread::yield();
        if (!file->alive) ++dead;
        ++used;
        table.release(handle);
      }
    });
  }
  // Without a user there would be no load: the rounds may end before a thread begins.
  EXPECT_TRUE(test::eventually([&] { return used > 0; }));
  test::within_patience("closing under load", [&] {
    // Each round may wait for a time slice of a descheduled user of the file.
    for (std::uint64_t round = 0; round < test::scaled(2'000); ++round) {
      auto& handle = handles[round % slots];
      const std::int32_t old = handle;
      ASSERT_TRUE(table.begin_close(old));
      while (!table.unused(old))
        std::this_thread::yield();
      delete table.finish_close(old);
      handle = insert();
    }
  });
  stop = true;
  users.clear();
  EXPECT_EQ(dead, 0);
  EXPECT_GT(used, 0U);
  for (auto& handle : handles)
    close(handle);
  EXPECT_EQ(files, 0);
}

}  // namespace
}  // namespace ferry::server
