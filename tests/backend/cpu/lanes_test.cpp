// File calls made by a whole group of emulated lanes.
#include "backend/cpu/lanes.hpp"

#include <array>
#include <cerrno>
#include <numeric>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

#include "support/files.hpp"

namespace {

using ferry::cpu::LaneGroup;
using ferry::cpu::run_lanes;
using ferry::cpu::warp_lanes;
using ferry::device::FileCalls;

class Lanes : public ::testing::Test {
 protected:
  Lanes() { ferry::test::write_file(path_, ""); }

  // Runs body(files, lane) on every lane of one warp; group 0's cells and ring.
  template <class Body>
  void on_warp(Body body) {
    run_lanes(warp_lanes, [&](LaneGroup group) {
      FileCalls files(runtime_.context(), group, 0);
      body(files, group.lane());
    });
  }

  ferry::Runtime runtime_;
  const ferry::test::ScratchDirectory directory_;
  const std::string path_ = directory_ / "file";
};

TEST(LaneGroup, CollectiveOperationsAgreeWithTheirMeaning) {
  std::array<std::uint64_t, warp_lanes> odd{};
  std::array<std::uint64_t, warp_lanes> same{};
  std::array<std::uint32_t, warp_lanes> from_next{};
  run_lanes(warp_lanes, [&](LaneGroup group) {
    const std::uint32_t lane = group.lane();
    EXPECT_EQ(group.broadcast(lane + 100), 100U);
    odd[lane] = group.ballot(lane % 2 == 1);
    same[lane] = group.match(lane % 3);
    from_next[lane] = group.shuffle(lane * lane, 5);
  });
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
    EXPECT_EQ(odd[lane], 0xaaaaaaaaU);
    std::uint64_t wanted = 0;
    for (std::uint32_t other = lane % 3; other < warp_lanes; other += 3)
      wanted |= 1ULL << other;
    EXPECT_EQ(same[lane], wanted);
    EXPECT_EQ(from_next[lane], 25U);
  }
}

TEST_F(Lanes, EveryLaneGetsTheSameResultAndTheCallHappensOnce) {
  const ferry::Buffer buffer = runtime_.allocate(8192);
  std::array<std::int64_t, warp_lanes> wrote{};
  std::array<std::uint64_t, warp_lanes> sizes{};
  const std::uint64_t before = runtime_.statistics().requests;
  on_warp([&](auto& files, std::uint32_t lane) {
    const int file = files.open(path_.c_str(), O_RDWR | O_APPEND);
    wrote[lane] = files.write(file, buffer.data(), 1000);
    ferry::device::FileStatus status{};
    EXPECT_EQ(files.fstat(file, &status), 0);
    sizes[lane] = status.size_bytes;
    EXPECT_EQ(files.close(file), 0);
    EXPECT_EQ(files.close(file), -EBADF);
  });
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
    EXPECT_EQ(wrote[lane], 1000);
    EXPECT_EQ(sizes[lane], 1000U);
  }
  EXPECT_EQ(runtime_.statistics().requests - before, 5U);
}

TEST_F(Lanes, StagedTransfersAreCopiedByAllLanes) {
  // Outside the arena, of a size that is no multiple of a lane's piece, in more than one step.
  std::vector<unsigned char> out(700'001);
  std::iota(out.begin(), out.end(), static_cast<unsigned char>(0));
  std::vector<unsigned char> in(out.size());
  on_warp([&](auto& files, std::uint32_t) {
    const int file = files.open(path_.c_str(), O_RDWR);
    EXPECT_EQ(files.pwrite(file, out.data(), out.size(), 3), static_cast<long>(out.size()));
    EXPECT_EQ(files.pread(file, in.data(), in.size() + 0, 3), static_cast<long>(in.size()));
    EXPECT_EQ(files.close(file), 0);
  });
  EXPECT_EQ(in, out);
  EXPECT_EQ(runtime_.statistics().staged_calls, 2U);
}

TEST_F(Lanes, AsynchronousTransfersAndPositionsWorkForAGroup) {
  const ferry::Buffer buffer = runtime_.allocate(4096);
  auto* bytes = buffer.as<char>();
  std::iota(bytes, bytes + 4096, static_cast<char>(0));
  on_warp([&](auto& files, std::uint32_t) {
    const int file = files.open(path_.c_str(), O_RDWR);
    auto pending = files.pwrite_async(file, bytes, 2048, 0);
    EXPECT_EQ(files.wait(pending), 2048);
    EXPECT_EQ(files.read(file, bytes + 2048, 1500), 1500);
    EXPECT_EQ(files.read(file, bytes + 2048, 1500), 548);
    EXPECT_EQ(files.read(file, bytes + 2048, 1500), 0);
    EXPECT_EQ(files.close(file), 0);
  });
}

}  // namespace
