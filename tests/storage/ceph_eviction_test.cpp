// A client that the metadata server evicts: its session ends, and the OSDs refuse it from then on.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/ceph_servers.hpp"

namespace ferry::storage {
namespace {

using test::pattern;
using test::same_bytes;

constexpr std::size_t mib = 1 << 20;

class CephEviction : public test::CephServers {
 protected:
  // All clients of this process.
  void evict() const { rig("evict", std::to_string(getpid())); }
};

TEST_F(CephEviction, EveryKindOfCallSaysSo) {
  const std::string data = pattern(4 * mib, 1);
  File* file = make_file("f", data, 5);
  file = reopen(file, "f", 5);
  // In the client's memory only.
  ASSERT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 10, 8 * mib); }), 10);
  evict();
  const std::int64_t synced = driver->simple(Kind::sync, file);
  EXPECT_EQ(synced, -ESHUTDOWN) << "what was not synced is lost, and that is said";
  const std::int64_t results[] = {
      driver->pread(file, arena.data(), 4 * mib, 0),
      driver->simple(Kind::truncate, file, 100),
      driver->simple(Kind::file_status, file),
      driver->try_open(at("f", 5), O_RDONLY),
      driver->try_open(at("g", 5), O_RDWR | O_CREAT),
      driver->path_call(Kind::path_status, at("f", 5)),
      driver->path_call(Kind::unlink, at("f", 5)),
      driver->path_call(Kind::make_directory, at("d", 5)),
  };
  for (const std::int64_t result : results)
    EXPECT_EQ(result, -ESHUTDOWN);
  std::int64_t written = driver->pwrite(file, arena.data(), 10, 0);
  if (written == 10) written = driver->simple(Kind::sync, file);
  EXPECT_EQ(written, -ESHUTDOWN);
  EXPECT_EQ(driver->close(file), 0) << "nothing is left that was not told";
  test::within_patience("the end of the evicted client", [&] { make_storage(); });
  ASSERT_EQ(unhurried([&] { return driver->open(at("f"), O_RDWR, file); }), 0);
  ASSERT_EQ(driver->pread(file, arena.data(), 4 * mib, 0), static_cast<std::int64_t>(4 * mib));
  EXPECT_TRUE(same_bytes(arena.view(0, 4 * mib), data));
  EXPECT_EQ(driver->pwrite(file, arena.data(), 10, 0), 10);
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  EXPECT_EQ(driver->close(file), 0);
}

// Who closes without a sync is told as well.
TEST_F(CephEviction, CloseTellsWhatIsLost) {
  File* file = make_file("f", pattern(mib, 1), 5);
  ASSERT_EQ(unhurried([&] { return driver->pwrite(file, arena.data(), 10, mib); }), 10);
  evict();
  EXPECT_EQ(driver->path_call(Kind::path_status, at("f", 5)), -ESHUTDOWN);
  EXPECT_EQ(driver->close(file), -ESHUTDOWN);
  test::within_patience("the end of the evicted client", [&] { make_storage(); });
}

// Transfers under way end, and none says that it moved what it did not.
TEST_F(CephEviction, TransfersUnderWayEnd) {
  const std::string data = pattern(4 * mib, 1);
  File* file = make_file("f", data, 10);
  file = reopen(file, "f", 10);
  std::thread evicts([&] { evict(); });
  constexpr std::size_t pieces = 16;
  constexpr std::size_t piece = 4 * mib / pieces;
  const auto until = std::chrono::steady_clock::now() + test::patience;
  bool refused = false;
  while (!refused && std::chrono::steady_clock::now() < until) {
    std::vector<Operation> reads(pieces);
    std::vector<iovec> vectors(pieces);
    std::memset(arena.data(), 0, 4 * mib);
    for (std::size_t i = 0; i < pieces; ++i) {
      vectors[i] = {arena.data() + i * piece, piece};
      reads[i].offset = static_cast<std::int64_t>(i * piece);
      begin(reads[i], Kind::read, file, vectors[i]);
    }
    for (std::size_t i = 0; i < pieces; ++i)
      driver->next();
    for (std::size_t i = 0; i < pieces; ++i) {
      if (reads[i].result == static_cast<std::int64_t>(piece)) {
        EXPECT_TRUE(same_bytes(arena.view(i * piece, piece), data.substr(i * piece, piece)));
      } else {
        EXPECT_EQ(reads[i].result, -ESHUTDOWN);
        refused = true;
      }
    }
  }
  evicts.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(driver->close(file), 0);
  test::within_patience("the end of the evicted client", [&] { make_storage(); });
}

// Each round writes a piece of its own and syncs it. What a sync has acknowledged before the client
// was evicted, another client finds.
TEST_F(CephEviction, SyncedBytesSurviveItUnderLoad) {
  File* file = make_file("f", "", 10);
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
  test::within_patience("the end of the evicted client", [&] { make_storage(); });
  ASSERT_EQ(unhurried([&] { return driver->open(at("f"), O_RDONLY, file); }), 0);
  expect_rounds(file, durable);
  EXPECT_EQ(driver->close(file), 0);
}

}  // namespace
}  // namespace ferry::storage
