// Batches, order, failures and the end of copies between pinned slots and GPUs.
#include "backend/cuda/copy_engine.hpp"

#include <array>
#include <cstring>
#include <deque>
#include <string>

#include <gtest/gtest.h>

#include "faults/allocations.hpp"
#include "support/files.hpp"
#include "support/mock_gpu.hpp"
#include "support/within.hpp"

namespace ferry::cuda {
namespace {

using test::GpuBuffer;
using test::MockCuda;

struct CudaCopies : test::OnMockGpu {
  static constexpr std::size_t slot_bytes = 4096;

  CopyEngine engine{gpu};
  GpuBuffer device{gpu, 64 * slot_bytes};
  PinnedSlots slots{gpu, 64, slot_bytes};
  std::deque<Copy> copies;

  Copy& start(Direction direction, std::size_t index) {
    Copy& copy = copies.emplace_back(
        Copy{direction, slots.memory().data() + index * slot_bytes,
             reinterpret_cast<DevicePointer>(inside(device, index * slot_bytes)), slot_bytes});
    engine.start(copy);
    return copy;
  }
  Copy* next() {
    Copy* copy = nullptr;
    EXPECT_TRUE(test::eventually([&] { return (copy = engine.reap()) != nullptr; }));
    return copy;
  }
};

TEST_F(CudaCopies, MoreBatchesThanEventsEndInOrder) {
  const std::string wanted = test::pattern(device.bytes(), 1);
  std::memcpy(slots.memory().data(), wanted.data(), wanted.size());
  MockCuda::set("hold_copies", 1);
  for (std::size_t index = 0; index < 64; ++index) {
    start(Direction::read, index);
    engine.flush();
  }
  EXPECT_EQ(engine.in_flight(), 64U);
  EXPECT_EQ(engine.reap(), nullptr);
  MockCuda::set("hold_copies", 0);
  for (Copy& copy : copies) {
    EXPECT_EQ(next(), &copy);
    EXPECT_EQ(copy.result, 0);
  }
  EXPECT_EQ(engine.in_flight(), 0U);
  EXPECT_TRUE(test::same_bytes(device.contents(), wanted));
}

// Where they could fail for lack of it, workers would have copies that nobody waits for.
TEST_F(CudaCopies, NeedNoMemory) {
  std::array<Copy, 64> all;
  for (Copy& copy : all) {
    copy.host = slots.memory().data();
    copy.device_address = reinterpret_cast<DevicePointer>(device.data());
    copy.bytes = slot_bytes;
  }
  MockCuda::set("hold_copies", 1);
  test::allocations().arm(1);
  for (Copy& copy : all) {
    engine.start(copy);
    engine.flush();
  }
  MockCuda::set("hold_copies", 0);
  while (engine.in_flight() > 0)
    ASSERT_NE(next(), nullptr);
  test::allocations().disarm();
  EXPECT_FALSE(test::allocations().struck());
}

TEST_F(CudaCopies, MoveBothWays) {
  device.fill(std::string(slot_bytes, 'd'));
  start(Direction::read, 1);
  engine.flush();
  Copy& out = start(Direction::write, 0);
  engine.flush();
  next();
  next();
  EXPECT_EQ(out.host[slot_bytes - 1], std::byte{'d'});
}

TEST_F(CudaCopies, ARefusedOneEndsInItsTurn) {
  MockCuda::set("fail_copy_call", 2);
  for (std::size_t index = 0; index < 3; ++index)
    start(Direction::read, index);
  engine.flush();
  for (Copy& copy : copies)
    EXPECT_EQ(next(), &copy);
  EXPECT_EQ(copies[0].result, 0);
  EXPECT_EQ(copies[1].result, -EIO) << "whatever the driver reports";
  EXPECT_EQ(copies[2].result, 0);
}

TEST_F(CudaCopies, AreAllLostWithTheGpu) {
  MockCuda::set("fail_copy", 1);
  start(Direction::read, 0);
  engine.flush();
  EXPECT_EQ(next()->result, -EIO);
  start(Direction::write, 1);
  engine.flush();
  EXPECT_EQ(next()->result, -EIO);
}

TEST_F(CudaCopies, TwoGpusShareAThread) {
  const auto second = std::make_shared<PrimaryContext>(Driver::get(), 1);
  const GpuBuffer theirs(second, slot_bytes);
  CopyEngine other(second);
  std::memset(slots.memory().data(), 'a', slot_bytes);
  Copy copy{Direction::read, slots.memory().data(), reinterpret_cast<DevicePointer>(theirs.data()),
            slot_bytes};
  for (int round = 0; round < 2; ++round) {
    start(Direction::read, 0);
    engine.flush();
    other.start(copy);
    other.flush();
    EXPECT_EQ(next()->result, 0);
    ASSERT_TRUE(test::eventually([&] { return other.reap() == &copy; }));
    EXPECT_EQ(copy.result, 0);
  }
  EXPECT_EQ(theirs.contents(), std::string(slot_bytes, 'a'));
}

TEST_F(CudaCopies, EndWithTheirEngineAndReturnItsEvents) {
  const auto streams = std::make_shared<CopyStreams>(gpu);
  const std::size_t events = streams->events.size();
  Copy copy{Direction::read, slots.memory().data(), reinterpret_cast<DevicePointer>(device.data()),
            slot_bytes};
  MockCuda::set("copy_delay_us", 1000);
  const long copied = MockCuda::get("copies");
  {
    CopyEngine lent(gpu, streams);
    lent.start(copy);
    lent.flush();
    EXPECT_EQ(streams->events.size(), events - 1);
  }
  EXPECT_EQ(MockCuda::get("copies"), copied + 1);
  EXPECT_EQ(streams->events.size(), events);
}

}  // namespace
}  // namespace ferry::cuda
