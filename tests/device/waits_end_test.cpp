// Every wait of a group ends with an errno when the server is dead, has stopped or has fallen
// silent: groups that wait for answers and groups that wait for room in the ring, with nobody to
// serve them. Also in kernels, by tests/cuda/device_tests.cu.
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

// The first group ends what the others wait for, once the ring is full, unless the silence does.
struct WaitForNobody {
  Context* context;
  LoopPhase end;  // `running`: the silence
  std::int64_t wanted;
  std::uint32_t* calls_begun;
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    if (index == 0 && end != LoopPhase::running) return finish(group);
    if (group.lane() == 0) DeviceRef<std::uint32_t>(*calls_begun).fetch_add(1, relaxed);
    FileCalls files(*context, group, index);
    checks.equal(files.ping(), wanted);
    // And whatever comes later.
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
      SystemRef<LoopPhase>(context->arena.loop_state(0).phase).store(end, seq_cst);
    }
    group.sync();
  }
};

template <class Kind>
class WaitsOf : public testing::Test {
 protected:
  static void expect(LoopPhase end, std::int64_t wanted, std::uint64_t liveness_timeout_ns) {
    Geometry geometry;
    geometry.slots_per_ring = slots;
    geometry.groups = groups;
    geometry.cells_per_group = 4;
    geometry.files = 1;
    geometry.staging_bytes = 4096;
    const test::TestArena arena(geometry, 4096);
    arena.context().wait.liveness_timeout_ns = liveness_timeout_ns;
    const test::SharedArray<std::uint32_t> calls_begun(1);
    const test::Report report;
    test::run_groups<Kind>(
        groups, WaitForNobody{&arena.context(), end, wanted, calls_begun.data(), report.checks()});
    EXPECT_EQ(report.text(), "");
    EXPECT_EQ(arena.view().ring(0).tickets->tail, slots) << "nobody made room";
  }
  static constexpr std::uint64_t for_ever_ns = 600'000'000'000;
};
TYPED_TEST_SUITE(WaitsOf, test::EveryKind, test::NameOfKind);

TYPED_TEST(WaitsOf, EndWhenTheServerIsDead) {
  this->expect(LoopPhase::dead, -EIO, this->for_ever_ns);
}
TYPED_TEST(WaitsOf, EndWhenTheServerHasStopped) {
  this->expect(LoopPhase::stopped, -ESHUTDOWN, this->for_ever_ns);
}
TYPED_TEST(WaitsOf, EndWhenTheServerIsSilent) {
  this->expect(LoopPhase::running, -EIO, 1'000'000);
}

}  // namespace
}  // namespace ferry::device
