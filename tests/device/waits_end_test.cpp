// Every wait of a group ends with an errno when the server is dead or has stopped, and not before:
// for groups that wait for answers or for space in the ring, without a server. Also in kernels, by
// tests/cuda/device_tests.cu.
#include <cerrno>
#include <cstdint>

#include <gtest/gtest.h>

#include <ferry/device/file_calls.hpp>

#include "support/hooks.hpp"
#include "support/programs.hpp"

namespace ferry::device {
namespace {

constexpr std::uint32_t groups = 8;
constexpr std::uint32_t slots = 4;  // so that half of them find no room
constexpr std::uint64_t silence_ns = 50'000'000;

// The first group ends the others' waits, once the ring is full and silence has changed nothing.
struct WaitForNobody {
  Context* context;
  LoopPhase end;
  std::int64_t wanted;
  std::uint32_t* calls_begun;
  std::uint32_t* calls_ended;
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    if (index == 0) return finish(group);
    if (group.lane() == 0) DeviceRef<std::uint32_t>(*calls_begun).fetch_add(1, relaxed);
    FileCalls files(*context, group, index);
    if (index % 2 == 0) {
      checks.equal(files.ping(), wanted);
    } else {
      unsigned char* buffer = context->arena.address_of(context->arena.layout.heap);
      Pending pending = files.pread_async(1, buffer, 1, 0);
      checks.equal(files.wait_any(&pending, 1), 0U);
      checks.equal(files.wait(pending), wanted);
    }
    if (group.lane() == 0) DeviceRef<std::uint32_t>(*calls_ended).fetch_add(1, relaxed);
    // And everything later.
    FileStatus status{};
    char byte = 0;
    checks.equal(files.open("file", 0), wanted);
    checks.equal(files.stat("file", &status), wanted);
    checks.equal(files.pread(1, &byte, 1, 0), wanted);
    checks.equal(files.ping_batch(3), wanted);
  }

 private:
  template <class Group>
  FERRY_DEVICE void finish(Group group) const {
    const RequestRing ring = context->arena.ring(0);
    const auto all_wait = [&] {
      return DeviceRef<std::uint32_t>(*calls_begun).load(acquire) == groups - 1 &&
             SystemRef<std::uint64_t>(ring.tickets->tail).load(acquire) == slots;
    };
    if (group.lane() == 0) {
      while (!all_wait())
        test::let_others_run();
      // As long as thousands of looks at the phase take.
      const std::uint64_t since = clock_ns(context->hooks);
      while (clock_ns(context->hooks) - since < silence_ns)
        test::let_others_run();
      checks.equal(DeviceRef<std::uint32_t>(*calls_ended).load(acquire), 0);
      SystemRef<LoopPhase>(context->arena.loop_state(0).phase).store(end, seq_cst);
    }
    group.sync();
  }
};

template <class Kind>
class WaitsOf : public testing::Test {
 protected:
  static void expect(LoopPhase end, std::int64_t wanted) {
    const test::TestArena arena({.slots_per_ring = slots,
                                 .groups = groups,
                                 .cells_per_group = 4,
                                 .files = 1,
                                 .staging_bytes = 4096},
                                4096);
    const test::SharedArray<std::uint32_t> calls(2);
    const test::ProgramReport report;
    test::run_groups<Kind>(groups, WaitForNobody{&arena.context(), end, wanted, calls.data(),
                                                 calls.data() + 1, report.checks()});
    EXPECT_EQ(report.text(), "");
    EXPECT_EQ(arena.view().ring(0).tickets->tail, slots) << "nobody made room";
  }
};
TYPED_TEST_SUITE(WaitsOf, test::EveryKind, test::NameOfKind);

TYPED_TEST(WaitsOf, EndWhenTheServerIsDead) {
  this->expect(LoopPhase::dead, -EIO);
}
TYPED_TEST(WaitsOf, EndWhenTheServerHasStopped) {
  this->expect(LoopPhase::stopped, -ESHUTDOWN);
}

}  // namespace
}  // namespace ferry::device
