// File calls with a page cache while the storage of one file, or one of two storages, hangs, and
// beside calls of others that change the file: unrelated calls do not wait.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/failing_storage.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"
#include "support/two_storages.hpp"

namespace ferry::hung_storage_test {
namespace {

using device::Placement;
using test::eventually;
using test::FailingStorage;
using test::pattern;
using test::Random;
using test::read_at;
using test::same_bytes;
using test::within_patience;

constexpr std::uint32_t page = 4096;
constexpr std::uint32_t groups = 4;
constexpr std::uint32_t files_max = 16;
constexpr std::uint32_t flights = 8;

class HungFileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto failing = std::make_unique<FailingStorage>(random.fork());
    storage = failing.get();
    device::Geometry geometry = test::small_geometry(1, groups);
    geometry.shared_cells = flights;
    rig = std::make_unique<test::ServerRig>(geometry, std::move(failing));
    const unsigned char* end = rig->add_cache({page, 64, files_max, groups, flights});
    ASSERT_LE(end, rig->heap() + test::ServerRig::heap_bytes);
  }
  void TearDown() override {
    storage->let_go();
    rig.reset();
  }
  device::cache::View& cache() const { return rig->arena.context().cache; }
  test::Calls calls(std::uint32_t group, Placement placement = Placement::compute) {
    return rig->calls(group, placement);
  }
  // Whether the cache has released the handle.
  bool is_detached(int file) const {
    std::int32_t& handle = cache().open_file(file).handle;
    return device::DeviceRef<std::int32_t>(handle).load(device::acquire) != file;
  }
  // A file of four pages, whose storage hangs, and its close by another group, which waits for it.
  std::thread close_a_hung_file(test::Calls& files) {
    storage->set_contents("hung", data);
    const int hung = files.open("hung", O_RDONLY);
    storage->hang("hung");
    EXPECT_EQ(files.prefetch(hung, 0, page), 0);
    std::thread closer([this, hung] { EXPECT_EQ(calls(1).close(hung), 0); });
    EXPECT_TRUE(eventually([&] { return is_detached(hung); }));
    return closer;
  }
  // Once it does not hang any more; closes it.
  void expect_data(test::Calls& files, int hung) const {
    EXPECT_TRUE(same_bytes(read_at(files, hung, data.size(), 0), data));
    EXPECT_EQ(files.close(hung), 0);
  }
  // Calls of a program on an unrelated file.
  void use_another_file(test::Calls& files, const std::string& name) {
    within_patience("calls on another file than the one that hangs", [&] {
      const int file = files.open(name.c_str(), O_RDWR | O_CREAT);
      ASSERT_GT(file, 0);
      EXPECT_EQ(files.pwrite(file, data.data(), data.size(), 0), 4 * page);
      EXPECT_TRUE(same_bytes(read_at(files, file, data.size(), 0), data));
      device::FileStatus status{};
      EXPECT_EQ(files.fstat(file, &status), 0);
      EXPECT_EQ(status.size_bytes, data.size());
      EXPECT_EQ(files.fsync(file), 0);
      EXPECT_EQ(files.close(file), 0);
      EXPECT_TRUE(same_bytes(storage->contents(name), data));
    });
  }

  const std::string data = pattern(4 * page, 1);
  Random random;
  FailingStorage* storage = nullptr;
  std::unique_ptr<test::ServerRig> rig;
};

TEST_F(HungFileTest, ACloseThatHangsKeepsOnlyItsOwnFileWaiting) {
  auto files = calls(0);
  std::thread closer = close_a_hung_file(files);
  use_another_file(files, "other");
  // The file itself exists when it is closed.
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    auto mine = calls(2);
    const int again = mine.open("hung", O_RDONLY);
    opened = true;
    expect_data(mine, again);
  });
  use_another_file(files, "one more");
  EXPECT_FALSE(opened);
  storage->let_go();
  within_patience("the file that hung", [&] {
    closer.join();
    opener.join();
  });
}

// Records are reused for other files although their reads never ended.
TEST_F(HungFileTest, PagesOfAClosedFileAreForgottenWithoutWaiting) {
  storage->version = 1;  // so that pages are kept
  auto files = calls(0);
  std::thread closer = close_a_hung_file(files);
  for (std::uint32_t i = 0; i < 2 * files_max; ++i)
    use_another_file(files, "other " + std::to_string(i));
  storage->let_go();
  within_patience("the file that hung", [&] {
    closer.join();
    expect_data(files, files.open("hung", O_RDONLY));
  });
}

// The first of several opens of a changed file brings the pages to its version; until then the
// others wait, and see no former byte. They do not ask the storage once more.
TEST_F(HungFileTest, OpensOfAChangedFileWaitForTheFirstAndLeaveTogether) {
  std::atomic<int> asked{0};
  storage->instead = [&](const storage::Operation& operation) {
    if (operation.kind == storage::Kind::file_status) ++asked;
    return false;
  };
  storage->set_contents("changed", data);
  storage->version = 1;
  auto writer = calls(0);
  const int dirty = writer.open("changed", O_RDWR);
  ASSERT_TRUE(same_bytes(read_at(writer, dirty, data.size(), 0), data));
  ASSERT_EQ(writer.pwrite(dirty, "ours", 4, 3 * page), 4);
  std::string changed = pattern(4 * page, 2);
  storage->set_contents("changed", changed);
  storage->version = 2;
  changed.replace(3 * page, 4, "ours");
  storage->hang("changed");
  asked = 0;
  const auto look = [&](std::uint32_t group) {
    auto mine = calls(group);
    const int file = mine.open("changed", O_RDONLY);
    EXPECT_TRUE(same_bytes(read_at(mine, file, data.size(), 0), changed)) << "group " << group;
    EXPECT_EQ(mine.close(file), 0);
  };
  std::vector<std::jthread> opens;
  opens.emplace_back(look, 1);
  EXPECT_TRUE(eventually([&] { return storage->held == 1; })) << "it writes back first";
  EXPECT_EQ(asked, 2);
  opens.emplace_back(look, 2);
  opens.emplace_back(look, 3);
  EXPECT_TRUE(eventually([&] { return asked == 4; }));
  storage->let_go();
  within_patience("opens of a changed file", [&] { opens.clear(); });
  EXPECT_EQ(asked, 5) << "the first one again, for the size";
  EXPECT_EQ(writer.close(dirty), 0);
  EXPECT_TRUE(same_bytes(storage->contents("changed"), changed));
}

// A hung storage's transfers leave frames and records for others.
class HungStorageTest : public HungFileTest {
 protected:
  void SetUp() override {
    HungFileTest::SetUp();
    storage->set_contents("hung", pattern(200 * page, 1));
    storage->put_on_device("hung", 2);
    cold = pattern(150 * page, 3);
    storage->set_contents("cold", cold);
    auto files = calls(0);
    hung = files.open("hung", O_RDWR);
    ASSERT_GT(hung, 0);
    storage->hang("hung");
  }
  void TearDown() override {
    storage->let_go();
    within_patience("the file that hung", [&] { EXPECT_EQ(calls(0).close(hung), 0); });
    HungFileTest::TearDown();
  }
  // More than fits into the cache, both ways.
  void use_others() {
    use_another_file(*std::make_unique<test::Calls>(calls(1)), "other");
    within_patience("much work on files of another storage than the one that hangs", [&] {
      auto files = calls(1);
      const int reader = files.open("cold", O_RDONLY);
      const int writer = files.open("written", O_RDWR | O_CREAT);
      for (std::size_t at = 0; at < cold.size(); at += page) {
        const std::string got = read_at(files, reader, page, static_cast<std::int64_t>(at));
        EXPECT_TRUE(same_bytes(got, cold.substr(at, page)));
        EXPECT_EQ(files.pwrite(writer, got.data(), page, static_cast<std::int64_t>(at)), page);
      }
      EXPECT_EQ(files.fsync(writer), 0);
      EXPECT_TRUE(same_bytes(storage->contents("written"), cold));
      EXPECT_EQ(files.close(writer), 0);
      EXPECT_EQ(files.close(reader), 0);
    });
  }

  std::string cold;
  int hung = -1;
};

TEST_F(HungStorageTest, ItsReadaheadLeavesOthersTheirShare) {
  auto files = calls(0);
  ASSERT_EQ(files.prefetch(hung, 0, 100 * page), 0);
  ASSERT_EQ(files.prefetch(hung, 100 * page, 100 * page), 0);
  ASSERT_TRUE(eventually([&] { return storage->held > 0; }));
  EXPECT_LT(cache().shared().flights, flights);
  EXPECT_LE(cache().shared().flying_pages, cache().layout.dirty_high);
  use_others();
}

TEST_F(HungStorageTest, ItsWritersWaitAndOthersDoNot) {
  std::atomic<std::size_t> written{0};
  std::thread writer([&] {
    auto files = calls(0);
    for (std::int64_t i = 0; i < 200; ++i) {
      EXPECT_EQ(files.pwrite(hung, data.data(), page, i * page), page);
      ++written;
    }
  });
  // It has reached its limit of the cache, and waits.
  const auto dirty = [&] {
    return device::DeviceRef<std::uint64_t>(cache().shared().dirty_pages).load(device::relaxed);
  };
  EXPECT_TRUE(eventually([&] { return dirty() > cache().layout.dirty_high; }));
  use_others();
  EXPECT_LT(written, 60U);
  storage->let_go();
  within_patience("the writer of the file that hung", [&] { writer.join(); });
}

// What the hung storage has dirty stays so.
TEST_F(HungStorageTest, OnlyLargeWritesGoPastAHalfDirtyCache) {
  constexpr std::uint64_t large = 4 << 20;
  const std::string bytes = pattern(large, 2);
  const std::uint32_t half = cache().layout.dirty_low;
  auto files = calls(0);
  auto others = calls(1, Placement::automatic);
  within_patience("writes beside a storage that hangs", [&] {
    const int file = others.open("other", O_RDWR | O_CREAT);
    const auto pages_for = [&](std::uint64_t call_bytes) {
      const std::uint64_t before = cache().counters(1).misses;
      EXPECT_EQ(others.pwrite(file, bytes.data(), call_bytes, 0),
                static_cast<std::int64_t>(call_bytes));
      return cache().counters(1).misses - before;
    };
    for (std::int64_t i = 0; i < half; ++i)
      ASSERT_EQ(files.pwrite(hung, data.data(), page, i * page), page);
    EXPECT_GT(pages_for(large), 0U);
    ASSERT_EQ(others.fsync(file), 0);
    ASSERT_EQ(files.pwrite(hung, data.data(), page, half * page), page);
    EXPECT_EQ(pages_for(large), 0U);
    EXPECT_GT(pages_for(large - page), 0U);
    EXPECT_EQ(others.close(file), 0);
    EXPECT_TRUE(same_bytes(storage->contents("other"), bytes));
  });
}

// Appends only change the end, so a read there needs one request beside as many of them as are
// remembered. With one more it counts as outdated; the reader retries at most this often, because
// no append begins during its turn.
TEST_F(HungFileTest, AppendsOutdateNothingBeforeTheEnd) {
  using device::cache::Inode;
  using device::cache::tries_before_turn;
  cache().switches.readahead = false;
  constexpr std::size_t pages = 40;
  std::string log = pattern(pages * page + 100, 1);
  storage->set_contents("log", log);
  auto files = calls(0);
  auto others = calls(1);
  const int reader = files.open("log", O_RDONLY);
  const int writer = others.open("log", O_WRONLY | O_APPEND);
  std::uint64_t lines = 0;
  const auto append = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string line = pattern(60, ++lines);
      EXPECT_EQ(others.write(writer, line.data(), line.size()), 60);
      log += line;
    }
  };
  // How many requests a read of this page takes with this many appends during each of the first.
  const auto requests_beside = [&](std::size_t at, std::uint32_t appends, std::uint32_t first) {
    storage->hang_reads("log");
    const std::uint64_t before = storage->reads;
    const std::string expected = log.substr(at * page, page);
    std::atomic<bool> done{false};
    std::thread thread([&] {
      EXPECT_TRUE(
          same_bytes(read_at(files, reader, page, static_cast<std::int64_t>(at) * page), expected));
      done = true;
    });
    std::uint64_t requests = 0;
    within_patience("a read beside appends", [&] {
      for (;;) {
        while (!done && storage->reads == before + requests)
          std::this_thread::yield();
        if (done) break;
        if (requests++ < first) append(appends);
        storage->let_a_read_go();
      }
      thread.join();
    });
    storage->let_go();
    return requests;
  };
  std::size_t at = 0;
  for (std::uint32_t appends = 0; appends < Inode::outside_kept; ++appends)
    EXPECT_EQ(requests_beside(at++, appends, 100), 1U) << appends << " appends";
  for (std::uint32_t first = 1; first <= tries_before_turn; ++first)
    EXPECT_EQ(requests_beside(at++, Inode::outside_kept, first), first + 1);
  // The page that they do change.
  const std::string end = read_at(files, reader, page, pages * page);
  EXPECT_TRUE(same_bytes(end, log.substr(pages * page, page)));
  EXPECT_TRUE(same_bytes(read_at(files, reader, log.size(), 0), log));
  EXPECT_EQ(others.close(writer), 0);
  EXPECT_EQ(files.close(reader), 0);
  EXPECT_TRUE(same_bytes(storage->contents("log"), log));
}

// ---- a storage beside another

constexpr std::uint32_t on_hung = 2;     // threads that work on the storage that hangs
constexpr std::uint32_t on_healthy = 2;  // and on the other
constexpr std::uint32_t threads = on_hung + on_healthy;
constexpr std::uint64_t file_bytes = 40 * page;

// Threads on two storages, one of which hangs again and again: calls on the other's files continue,
// whatever the hung file has dirty, in flight or half open, and nothing is lost.
class HungStorage : public testing::Test {
 protected:
  void make(std::uint32_t pages) {
    auto both = std::make_unique<test::TwoStorages>(random.fork());
    failing = &both->failing();
    device::Geometry geometry = test::small_geometry(1, threads);
    geometry.shared_cells = 8;
    rig = std::make_unique<test::ServerRig>(geometry, std::move(both));
    rig->add_cache({page, pages, 16, threads, 8});
  }
  std::string path_of(std::uint32_t index) const {
    const std::string name = std::to_string(index);
    return index < on_hung ? std::string(test::TwoStorages::prefix) + name : directory / name;
  }

  // Each thread on a file of its own, against a model of it.
  void work(std::uint32_t index, Random own) {
    test::Calls files = rig->calls(index);
    std::string model(file_bytes, '\0');
    const std::string path = path_of(index);
    int file = files.open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (files.ftruncate(file, file_bytes) != 0) wrong = __LINE__;
    while (!ended && wrong == 0) {
      files.use(own.one_in(4) ? Placement::host : Placement::compute);
      const std::uint64_t bytes = 1 + own.below(own.one_in(20) ? 6 * page : 500);
      const auto offset = static_cast<std::int64_t>(own.below(file_bytes - bytes));
      std::string data(bytes, static_cast<char>(own.bits()));
      const std::uint64_t what = own.below(100);
      if (what < 2) {
        if (files.close(file) != 0) wrong = __LINE__;
        file = files.open(path.c_str(), O_RDWR);
        if (file <= 0) wrong = __LINE__;
      } else if (what < 4) {
        if (files.fsync(file) != 0) wrong = __LINE__;
      } else if (what < 6) {
        if (files.prefetch(file, offset, 10 * page) != 0) wrong = __LINE__;
      } else if (what < 50) {
        const std::int64_t got = files.pwrite(file, data.data(), bytes, offset);
        if (got != static_cast<std::int64_t>(bytes)) wrong = __LINE__;
        model.replace(static_cast<std::size_t>(offset), bytes, data);
      } else {
        const std::int64_t got = files.pread(file, data.data(), bytes, offset);
        if (got != static_cast<std::int64_t>(bytes) ||
            model.compare(static_cast<std::size_t>(offset), bytes, data) != 0)
          wrong = __LINE__;
      }
      calls[index].fetch_add(1);
    }
    if (files.close(file) != 0) wrong = __LINE__;
    const std::string there = index < on_hung ? failing->contents(path) : test::read_file(path);
    if (const auto same = same_bytes(there, model); !same) {
      wrong = __LINE__;
      ADD_FAILURE() << path << ": " << same.message();
    }
  }
  // While one storage is blocked, every thread on the other makes `more` calls.
  void hang_for(std::uint64_t more) {
    failing->all_hang = true;
    std::array<std::uint64_t, threads> before{};
    for (std::uint32_t i = on_hung; i < threads; ++i)
      before[i] = calls[i];
    for (std::uint32_t i = on_hung; i < threads && wrong == 0; ++i) {
      EXPECT_TRUE(eventually([&] { return calls[i] >= before[i] + more || wrong != 0; }))
          << "calls on a healthy storage wait for one that hangs";
    }
    failing->all_hang = false;
  }

  Random random;
  const test::ScratchDirectory directory;
  FailingStorage* failing = nullptr;
  std::unique_ptr<test::ServerRig> rig;
  std::array<std::atomic<std::uint64_t>, threads> calls{};
  std::atomic<bool> ended{false};
  std::atomic<int> wrong{0};
};

TEST_F(HungStorage, HarmsCallsOnItsOwnFilesOnly) {
  for (const std::uint32_t pages : {16U, 60U}) {
    make(pages);
    ended = false;
    for (auto& count : calls)
      count = 0;
    within_patience("threads beside a storage that hangs", [&] {
      std::vector<std::jthread> workers;
      for (std::uint32_t i = 0; i < threads; ++i)
        workers.emplace_back(
            [=, this, fork = random.fork()]() mutable { work(i, std::move(fork)); });
      const std::uint64_t rounds = test::scaled(20);
      for (std::uint64_t i = 0; i < rounds && !HasFailure() && wrong == 0; ++i) {
        // The hung files run in between, so that each time something else is in flight.
        const std::uint64_t so_far = calls[0];
        if (!eventually([&] { return calls[0] > so_far + 20 || wrong != 0; })) wrong = __LINE__;
        hang_for(300);
      }
      ended = true;
    });
    EXPECT_EQ(wrong, 0);
    if (HasFailure()) return;
    rig.reset();
  }
}

// Their fills hold every page for as long as it hangs, but for one that a view of the other storage
// may hold.
class HungReaders : public HungStorage, public testing::WithParamInterface<bool> {};

TEST_P(HungReaders, MayHoldTheWholeCache) {
  constexpr std::uint32_t pages = 4;
  make(pages);
  std::array<int, on_hung> files{};
  for (std::uint32_t i = 0; i < on_hung; ++i) {
    failing->set_contents(path_of(i), pattern(pages * page, i));
    files[i] = rig->calls(i).open(path_of(i).c_str(), O_RDONLY);
    ASSERT_GT(files[i], 0);
  }
  const std::string healthy = pattern(pages * page, 7);
  test::write_file(path_of(on_hung), healthy);
  test::Calls others = rig->calls(on_hung, Placement::compute);
  const int file = others.open(path_of(on_hung).c_str(), O_RDWR);
  ASSERT_GT(file, 0);
  device::cache::PinnedView view;
  if (GetParam()) {
    ASSERT_EQ(others.hold(file, 3 * page, page, view), page);
  }
  failing->all_hang = true;
  std::vector<std::jthread> readers;
  for (std::uint32_t i = 0; i < on_hung; ++i) {
    readers.emplace_back([&, i] {
      test::Calls mine = rig->calls(i, Placement::compute);
      EXPECT_TRUE(same_bytes(read_at(mine, files[i], pages / on_hung * page, 0),
                             pattern(pages * page, i).substr(0, pages / on_hung * page)));
    });
  }
  EXPECT_TRUE(eventually([&] { return failing->reads >= on_hung; }));
  within_patience("calls beside readers that hold the whole cache", [&] {
    EXPECT_TRUE(same_bytes(read_at(others, file, 2 * page, 0), healthy.substr(0, 2 * page)));
    EXPECT_EQ(others.pwrite(file, healthy.data(), 100, page), 100);
  });
  failing->all_hang = false;
  readers.clear();
  if (GetParam()) others.release(view);
  EXPECT_EQ(others.close(file), 0);
}

INSTANTIATE_TEST_SUITE_P(Views, HungReaders, testing::Bool(),
                         [](const auto& one) { return one.param ? "Held" : "NotHeld"; });

// A reader that finds one frame free, and needs the place of a page that its storage does not
// write: it waits with nothing that a call on the other storage could use.
TEST_F(HungStorage, KeepsNoFrameOfACallThatWaitsForAnother) {
  make(4);
  failing->set_contents(path_of(0), pattern(4 * page, 0));
  test::Calls mine = rig->calls(0, Placement::compute);
  const int hung = mine.open(path_of(0).c_str(), O_RDWR);
  ASSERT_GT(hung, 0);
  const std::string healthy = pattern(4 * page, 7);
  test::write_file(path_of(on_hung), healthy);
  test::Calls others = rig->calls(on_hung, Placement::compute);
  const int file = others.open(path_of(on_hung).c_str(), O_RDONLY);
  ASSERT_GT(file, 0);
  // Two frames are in use, the third has the dirty page, and the fourth is free.
  std::array<device::cache::PinnedView, 2> views;
  for (std::uint32_t i = 0; i < views.size(); ++i)
    ASSERT_EQ(others.hold(file, std::int64_t{i} * page, page, views[i]), page);
  ASSERT_EQ(mine.pwrite(hung, healthy.data(), 100, 0), 100);
  failing->all_hang = true;
  const std::uint64_t calls_before = failing->reads + failing->writes;
  std::jthread reader([&] {
    EXPECT_TRUE(same_bytes(read_at(mine, hung, 2 * page, page),
                           pattern(4 * page, 0).substr(page, 2 * page)));
  });
  EXPECT_TRUE(eventually([&] { return failing->reads + failing->writes > calls_before; }));
  within_patience("a call beside one that waits for a place", [&] {
    EXPECT_TRUE(same_bytes(read_at(others, file, page, 3 * page), healthy.substr(3 * page)));
  });
  failing->all_hang = false;
  reader.join();
  for (device::cache::PinnedView& view : views)
    others.release(view);
  EXPECT_EQ(others.close(file), 0);
  EXPECT_EQ(mine.close(hung), 0);
}

}  // namespace
}  // namespace ferry::hung_storage_test
