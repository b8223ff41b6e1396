// Malformed requests, written straight into the ring of a running server: it answers or ignores
// them, and keeps serving others.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/server.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"

namespace ferry::server {
namespace {

using device::Opcode;
using device::Request;
using test::pattern;
using test::Random;
using test::ServerRig;
using test::small_geometry;

// Well-behaved groups (0 and 4 on the first loop, 1 on the second), and the rogue: group 2, on the
// first loop's ring with its own cells.
class Rogue : public testing::TestWithParam<storage::Engine> {
 protected:
  void SetUp() override {
    std::unique_ptr<storage::Storage> storage;
    try {
      storage = storage::make_posix(GetParam());
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();
    }
    // Paths are relative and without a slash, so the rogue only touches files here.
    before = std::filesystem::current_path();
    std::filesystem::create_directory(directory / "inside");
    std::filesystem::current_path(directory / "inside");
    test::write_file(directory / "outside", pattern(100'000, 1));
    device::Geometry geometry = small_geometry(2, 5);
    geometry.files = 64;
    rig = std::make_unique<ServerRig>(geometry, std::move(storage));
    const device::ArenaView& view = rig->arena.view();
    paths = view.layout.heap;
    extents = paths + 64 * 1024;
    data = extents + 4096;
    size = view.layout.geometry.arena_bytes;
    for (std::uint64_t at = paths; at < extents; ++at)
      view.base[at] = static_cast<unsigned char>("abc\0"[random.below(4)]);
  }
  void TearDown() override {
    if (!before.empty()) std::filesystem::current_path(before);
  }

  std::uint64_t number(std::uint64_t first, std::uint64_t end) {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t edges[] = {0, 1, first, end, size, most, most / 2, most / 2 + 1, 1 << 20};
    if (random.one_in(3)) return random.pick(edges) + random.below(20) - 10;
    if (random.one_in(10)) return random.bits();
    return random.between(first, end - 1);
  }

  // Avoids others' parts of the arena and what this test depends on.
  std::uint64_t aim(std::uint64_t buffer) {
    const std::uint64_t control_end = rig->arena.view().layout.scratch;
    if (random.one_in(10)) return random.below(control_end);
    return buffer >= control_end && buffer < data ? buffer + size : buffer;
  }

  Request garbage() {
    Request request{};
    auto* bytes = reinterpret_cast<unsigned char*>(&request);
    for (std::size_t i = 0; i < sizeof request; ++i)
      bytes[i] = static_cast<unsigned char>(random.bits());
    request.opcode = static_cast<Opcode>(random.one_in(5) ? random.bits() : random.below(14));
    // Each waits for the disk.
    const bool syncs = request.opcode == Opcode::sync || request.opcode == Opcode::sync_data;
    if (syncs && !random.one_in(100)) request.opcode = Opcode::truncate;
    // Its own cells, or none at all.
    const std::uint32_t cells = rig->arena.view().cell_count();
    request.cell = random.one_in(3) ? cells + static_cast<std::uint32_t>(random.bits() % 1000)
                                    : 2 * 16 + static_cast<std::uint32_t>(random.below(16));
    if (random.one_in(20)) request.cell = 0xffffffff - static_cast<std::uint32_t>(random.below(9));
    if (!random.one_in(4)) request.file = files[random.below(files.size())];
    if (!random.one_in(4)) request.offset = static_cast<std::int64_t>(random.below(1 << 20));
    const bool names_path = request.opcode == Opcode::open || request.opcode == Opcode::unlink ||
                            request.opcode == Opcode::path_status;
    // Reads and answers only reach the data part of the heap, or are refused for leaving the arena
    // or touching the control block.
    const bool fills = request.opcode == Opcode::read || request.opcode == Opcode::file_status;
    request.buffer = names_path ? number(paths, extents) : number(data, size);
    if (request.opcode == Opcode::path_status) request.buffer = data + random.below(1000);
    if (fills) request.buffer = aim(request.buffer);
    request.length = names_path ? random.below(5000) : number(0, 1 << 15);
    if (names_path && request.opcode != Opcode::path_status && request.buffer < size &&
        request.buffer + request.length > extents) {
      request.length = 1 + random.below(8);
      request.buffer = paths + random.below(1000);
    }
    if (!random.one_in(4)) request.kept = random.one_in(4) ? request.length : 0;
    request.argument = static_cast<std::int64_t>(random.bits() & 07777777);
    if (!random.one_in(100)) request.argument &= ~std::int64_t{O_SYNC};  // each write would wait
    if (request.opcode == Opcode::read_vector || request.opcode == Opcode::write_vector) {
      request.buffer = extents + random.below(64) * 16 + (random.one_in(8) ? 3 : 0);
      request.length = random.one_in(6) ? random.bits() : random.below(20);
    }
    return request;
  }

  void scatter_extents() {
    for (std::uint64_t i = 0; i < 84; ++i) {
      device::BufferExtent extent{number(data, size), number(0, 1 << 16)};
      extent.buffer = aim(extent.buffer);
      std::memcpy(rig->arena.view().base + extents + i * 16, &extent, sizeof extent);
    }
  }

  void expect_good_service(std::uint32_t group) {
    auto calls = rig->calls(group);
    unsigned char* memory = rig->arena.view().base + size - 16'384 * (group + 1);
    const std::string name = directory / ("good" + std::to_string(group));
    const int file = calls.open(name.c_str(), O_RDWR | O_CREAT, 0644);
    ASSERT_GT(file, 0);
    const std::string bytes = pattern(10'000, group);
    ASSERT_EQ(calls.pwrite(file, bytes.data(), bytes.size(), 5), 10'000);
    EXPECT_TRUE(test::same_bytes(test::read_at(calls, file, 10'000, 5), bytes));
    ASSERT_EQ(calls.pread(file, memory, 0, 5), 0);
    ASSERT_EQ(calls.close(file), 0);
  }

  Random random;
  test::ScratchDirectory directory;
  std::filesystem::path before;
  std::unique_ptr<ServerRig> rig;
  std::vector<std::int32_t> files = {0, -1, 64, 65, 128, 0x10000 + 64};
  std::uint64_t paths = 0;
  std::uint64_t extents = 0;
  std::uint64_t data = 0;
  std::uint64_t size = 0;
};

TEST_P(Rogue, HarmsNobody) {
  auto own = rig->calls(4);
  const device::RequestRing ring = rig->arena.view().ring(0);
  std::atomic<bool> stop{false};
  // Some group works all the time.
  std::atomic<std::uint64_t> pings{0};
  std::atomic<int> failed{0};
  std::thread good([&] {
    auto calls = rig->calls(1);
    while (!stop) {
      if (calls.ping() != 0) ++failed;
      ++pings;
    }
  });
  test::within_patience("garbage", [&] {
    const std::uint64_t rounds = test::scaled(20'000);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (round % 200 == 0) {
        const int file =
            own.open(("f" + std::to_string(round % 7)).c_str(), O_RDWR | O_CREAT, 0644);
        if (file > 0) files.push_back(file);
        if (files.size() > 30) files.erase(files.begin() + 6);
        scatter_extents();
      }
      const auto count = static_cast<std::uint32_t>(random.between(1, 8));
      Request batch[8];
      for (std::uint32_t i = 0; i < count; ++i)
        batch[i] = garbage();
      std::uint64_t ticket = 0;
      while (!ring.try_claim(count, ticket))
        std::this_thread::yield();
      ring.publish(ticket, batch, count);
      storage::Doorbell{&rig->arena.view().doorbell(0).count}.ring();
      if (random.one_in(50)) {
        ASSERT_EQ(own.ping(), 0) << "round " << round;
      }
    }
    ASSERT_EQ(own.ping(), 0);
  });
  // The rogue may have filled the table: nothing prevents that.
  for (std::int32_t generation = 1; generation < 400; ++generation) {
    for (std::int32_t index = 0; index < 64; ++index)
      own.close(generation * 64 | index);
  }
  expect_good_service(0);
  expect_good_service(3);  // the second loop; group 1 is still at work
  stop = true;
  good.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(pings, 0U);
  EXPECT_GT(rig->server->statistics(0).refused, 0U);
  EXPECT_TRUE(test::same_bytes(test::read_file(directory / "outside"), pattern(100'000, 1)));
  const StopReport report = rig->server->stop(test::patience);
  EXPECT_TRUE(report.finished);
}

INSTANTIATE_TEST_SUITE_P(Engines, Rogue,
                         testing::Values(storage::Engine::io_uring, storage::Engine::threads),
                         [](const auto& each) {
                           return std::string(each.param == storage::Engine::io_uring ? "uring"
                                                                                      : "threads");
                         });

}  // namespace
}  // namespace ferry::server
