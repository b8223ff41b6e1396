// A client that the metadata server evicts: its session ends, and the OSDs refuse it afterwards.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "storage/ceph/mounts.hpp"
#include "support/ceph_servers.hpp"
#include "support/depth.hpp"
#include "support/threads.hpp"

namespace ferry::storage {
namespace {

using test::pattern;
using test::same_bytes;

constexpr std::size_t mib = 1 << 20;

class CephEviction : public test::CephServers {
 protected:
  // All clients of this process.
  void evict() const { rig("evict", std::to_string(getpid())); }
  // The client may answer from its memory until the end of its session has arrived.
  static bool finds_it(const std::function<std::int64_t()>& call) {
    return test::eventually([&] { return call() == -ESHUTDOWN; });
  }
  // Their number in this process, by a thread that each has.
  static std::size_t clients() { return test::threads_named("ms_dispatch"); }
};

// Open files stay refused; once a call has reported that, opens and names use another client.
TEST_F(CephEviction, OpenFilesStayRefusedAndNewOnesAreNot) {
  const std::string data = pattern(4 * mib, 1);
  auto file = make_and_reopen("f", data, 5);
  // In the client's memory only.
  ASSERT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 10, 8 * mib); }), 10);
  evict();
  const std::int64_t synced = driver->simple(Kind::sync, file);
  EXPECT_EQ(synced, -ESHUTDOWN) << "what was not synced is lost, and that is said";
  const auto again = open_unhurried(at("f", 5), O_RDWR);
  EXPECT_TRUE(finds(again, data));
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f", 5)), 0);
  EXPECT_EQ(driver->pwrite(again, arena.data(), 10, 0), 10);
  EXPECT_EQ(driver->simple(Kind::sync, again), 0);

  EXPECT_EQ(driver->pread(file, arena.data(), 4 * mib, 0), -ESHUTDOWN);
  EXPECT_EQ(driver->simple(Kind::truncate, file, 100), -ESHUTDOWN);
  EXPECT_EQ(driver->simple(Kind::file_status, file), -ESHUTDOWN);
  std::int64_t written = driver->pwrite(file, arena.data(), 10, 0);
  if (written == 10) written = driver->simple(Kind::sync, file);
  EXPECT_EQ(written, -ESHUTDOWN);
  file.close();  // nothing is left that was not told
  EXPECT_EQ(driver->simple(Kind::file_status, again), 0) << "its client is not the lost one";
}

// Without open files, a call by name detects it. It is not repeated, because the servers may have
// executed it; the next one succeeds.
TEST_F(CephEviction, EveryKindOfCallByNameSaysSoOnce) {
  make_file("f", pattern(mib, 1), 5).close();
  const std::string wide = at("wide", 5);
  made.insert(made.end(), {at("g"), wide});
  std::vector<DirectoryEntry> entries;
  Layout layout;
  const std::vector<std::function<std::int64_t()>> calls = {
      [&] { return driver->path_call(Kind::path_status, at("f", 5)); },
      [&] { return driver->try_open(at("f", 5), O_RDONLY); },
      [&] { return driver->try_open(at("g", 5), O_RDWR | O_CREAT | O_EXCL); },
      [&] { return driver->path_call(Kind::make_directory, at("d", 5)); },
      [&] { return driver->list(at("d", 5), entries); },
      [&] { return driver->layout_call(Kind::path_layout, at("f", 5), layout); },
      [&] {
        Layout two = test::striped(mib, 2);
        return driver->layout_call(Kind::open, wide, two);
      },
      [&] { return driver->rename(at("g", 5), at("f", 5)); },
      [&] { return driver->path_call(Kind::unlink, at("f", 5)); },
      [&] { return driver->path_call(Kind::remove_directory, at("d", 5)); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    evict();
    EXPECT_TRUE(finds_it(calls[i])) << i;
    EXPECT_EQ(unhurried(calls[i]), 0) << i;
  }
  EXPECT_EQ(layout.pool, "data");
}

// A close without a sync also reports it, once.
TEST_F(CephEviction, CloseTellsWhatIsLost) {
  File* file = make_file("f", pattern(mib, 1), 5).release();
  ASSERT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 10, mib); }), 10);
  evict();
  EXPECT_TRUE(finds_it([&] { return driver->path_call(Kind::path_status, at("f", 5)); }));
  EXPECT_EQ(driver->close(file), -ESHUTDOWN);
  EXPECT_EQ(driver->try_open(at("f", 5), O_RDWR), 0);
}

// Many threads detect it at once, with opens, transfers and closes of others in flight. Each call
// succeeds or reports it, synced bytes survive, and one client is left.
TEST_F(CephEviction, ManyThreadsGoOnWithOneNewClient) {
  constexpr unsigned threads = 24;  // more than the storage has
  constexpr std::size_t bytes = 64 << 10;
  std::atomic<unsigned> evictions{0};
  std::atomic<std::uint64_t> refused{0};
  ASSERT_EQ(driver->path_call(Kind::path_status, at("absent")), -ENOENT);
  ASSERT_TRUE(test::eventually([&] { return clients() == 1; })) << "those of other tests end";
  const std::uint64_t rounds = test::scaled(4);
  for (unsigned i = 0; i < threads; ++i)
    made.push_back(at("f" + std::to_string(i)));
  const auto work = [&](unsigned thread) {
    test::StorageDriver own(*storage);
    std::vector<char> memory(bytes);
    const std::string name = at("f" + std::to_string(thread));
    const auto expected = [&](std::int64_t result, std::int64_t wanted) {
      EXPECT_TRUE(result == wanted || result == -ESHUTDOWN) << result << " of " << wanted;
      if (result == -ESHUTDOWN) ++refused;
      return result == wanted;
    };
    std::string durable;
    for (std::uint64_t round = 1;; ++round) {
      const bool last = evictions == rounds;
      File* file = nullptr;
      if (!expected(own.open(name, O_RDWR | O_CREAT, file), 0)) continue;
      bool all = true;
      if (!durable.empty()) {
        all = expected(own.pread(file, memory.data(), bytes, 0), bytes);
        EXPECT_TRUE(!all || same_bytes({memory.data(), bytes}, durable));
      }
      const std::string data = pattern(bytes, round * threads + thread);
      std::memcpy(memory.data(), data.data(), bytes);
      all = expected(own.pwrite(file, memory.data(), bytes, 0), bytes) && all;
      const bool synced = expected(own.simple(Kind::sync, file), 0);
      all = synced && all;
      all = expected(own.close(file), 0) && all;
      if (synced && all) durable = data;
      if (!all) durable.clear();  // either of two
      if (all && last) return;
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i)
    workers.emplace_back(work, i);
  for (; evictions < rounds; ++evictions)
    evict();
  test::within_patience("calls after an eviction", [&] {
    for (std::thread& worker : workers)
      worker.join();
  });
  EXPECT_GT(refused, 0U);
  EXPECT_TRUE(test::eventually([&] { return clients() == 1; })) << clients();
}

// Lost clients end, with their threads, once nothing of theirs is open.
TEST_F(CephEviction, LostClientsEnd) {
  made.push_back(at("f"));
  for (std::uint64_t i = 0; i < test::scaled(12); ++i) {
    const auto file = open_unhurried(at("f"), O_RDWR | O_CREAT);
    ASSERT_EQ(driver->pwrite(file, arena.data(), 10, 0), 10);
    evict();
    EXPECT_TRUE(finds_it([&] { return driver->path_call(Kind::path_status, at("f")); }));
    EXPECT_EQ(driver->simple(Kind::sync, file), -ESHUTDOWN);
  }
  EXPECT_EQ(driver->try_open(at("f"), O_RDONLY), 0);
  EXPECT_TRUE(test::eventually([&] { return clients() == 1; })) << clients();
}

// Files that stay open keep their lost clients, whose number is limited.
TEST_F(CephEviction, LostClientsThatAreHeldAreBounded) {
  made.push_back(at("f"));
  std::vector<File*> files;
  for (std::size_t i = 0; i <= CephMounts::lost_clients_max; ++i) {
    files.push_back(open_unhurried(at("f"), O_RDWR | O_CREAT).release());
    evict();
    ASSERT_TRUE(finds_it([&] { return driver->path_call(Kind::path_status, at("f")); }));
  }
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f")), -ESHUTDOWN);
  EXPECT_EQ(driver->try_open(at("f"), O_RDONLY), -ESHUTDOWN);
  EXPECT_TRUE(test::eventually([&] { return clients() == CephMounts::lost_clients_max + 1; }))
      << clients();
  EXPECT_EQ(driver->close(files.back()), 0) << "of the client that is in the way";
  files.pop_back();
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f")), -ESHUTDOWN);
  EXPECT_EQ(driver->close(files.front()), 0);
  files.erase(files.begin());
  EXPECT_TRUE(test::eventually([&] { return driver->path_call(Kind::path_status, at("f")) == 0; }));
  for (File* held : files) {
    EXPECT_EQ(driver->pread(held, arena.data(), 10, 0), -ESHUTDOWN);
    EXPECT_EQ(driver->close(held), 0);
  }
  EXPECT_TRUE(test::eventually([&] { return clients() == 1; })) << clients();
}

// Transfers in flight end, and none reports bytes it did not move.
TEST_F(CephEviction, TransfersUnderWayEnd) {
  const std::string data = pattern(4 * mib, 1);
  const auto file = make_and_reopen("f", data, 10);
  std::thread evicts([&] { evict(); });
  constexpr std::size_t pieces = 16;
  constexpr std::size_t piece = 4 * mib / pieces;
  const auto until = std::chrono::steady_clock::now() + test::patience;
  bool refused = false;
  while (!refused && std::chrono::steady_clock::now() < until) {
    std::memset(arena.data(), 0, 4 * mib);
    const auto reads = driver->start_pieces(Kind::read, file, arena.data(), piece, pieces);
    for (std::size_t i = 0; i < pieces; ++i)
      driver->next();
    for (std::size_t i = 0; i < pieces; ++i) {
      if (reads[i].result == std::int64_t{piece}) {
        EXPECT_TRUE(same_bytes(arena.view(i * piece, piece), data.substr(i * piece, piece)));
      } else {
        EXPECT_EQ(reads[i].result, -ESHUTDOWN);
        refused = true;
      }
    }
  }
  evicts.join();
  EXPECT_TRUE(refused);
}

// Each round writes and syncs a piece. Another client finds everything that a sync acknowledged
// before the eviction.
TEST_F(CephEviction, SyncedBytesSurviveItUnderLoad) {
  File* file = make_file("f", "", 10).release();
  std::thread evicts([&] { evict(); });
  const auto until = std::chrono::steady_clock::now() + test::patience;
  std::int64_t last = 0;
  const Rounds durable = write_rounds(file, [&](std::int64_t result) {
    last = result;
    return result == 0 && std::chrono::steady_clock::now() < until;
  });
  evicts.join();
  EXPECT_EQ(last, -ESHUTDOWN);
  driver->close(file);
  expect_rounds(open_unhurried(at("f"), O_RDONLY), durable);
}

}  // namespace
}  // namespace ferry::storage
