// The ring and its cells with the groups of one device program: many submit at once, one takes
// requests and answers in another order. Also in kernels, by tests/cuda/device_tests.cu;
// ring_test.cpp has a server that sleeps and stops.
#include <cstdint>

#include <gtest/gtest.h>

#include <ferry/device/requester.hpp>
#include <ferry/device/ring.hpp>

#include "support/depth.hpp"
#include "support/hooks.hpp"
#include "support/programs.hpp"

namespace ferry::device {
namespace {

constexpr std::uint32_t batch_max = 4;
constexpr std::uint32_t held_max = 8;

FERRY_DEVICE std::int64_t result_of(std::int64_t number) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15ULL) >>
                                   1);
}

// Group 0 serves; each of the others makes `requests` requests, numbered from 0. The leaders do it.
struct Traffic {
  Context* context;
  std::uint32_t groups;
  std::uint64_t requests;
  std::uint64_t seed;
  std::uint32_t* finished;        // groups that have made theirs
  std::uint64_t* taken;           // by the server, of each group
  std::uint64_t* answered_right;  // likewise, as its group saw it
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    if (group.lane() == 0) {
      if (index == 0) {
        serve();
      } else {
        ask(index);
        DeviceRef<std::uint32_t>(*finished).fetch_add(1, acq_rel);
      }
    }
    group.sync();
  }

 private:
  // Batches of random size, waited for from the last one on.
  FERRY_DEVICE_CALL void ask(std::uint32_t index) const {
    Requester requester(*context, index);
    test::DeviceRandom random(seed + index);
    std::uint64_t right = 0;
    for (std::uint64_t made = 0; made < requests && !checks.failed();) {
      Request batch[batch_max]{};
      Ticket tickets[batch_max];
      const std::uint64_t left = requests - made;
      const auto most = static_cast<std::uint32_t>(left < batch_max ? left : batch_max);
      const auto count = static_cast<std::uint32_t>(1 + random.below(most));
      for (std::uint32_t i = 0; i < count; ++i) {
        batch[i].opcode = Opcode::read;
        batch[i].file = static_cast<std::int32_t>(index);
        batch[i].offset = static_cast<std::int64_t>(made + i);
        checks.equal(requester.prepare(batch[i], tickets[i], 0), 0);
      }
      checks.equal(requester.submit(batch, count), 0);
      for (std::uint32_t i = count; i-- > 0;) {
        const Answer answer = requester.wait(tickets[i]);
        const std::int64_t number = batch[i].offset;
        checks.equal(answer.result, result_of(number));
        checks.equal(answer.value, static_cast<std::uint64_t>(number) + 1);
        if (answer.result == result_of(number)) ++right;
      }
      made += count;
    }
    answered_right[index] = right;
  }

  // Keeps a few requests back, and answers those in no order.
  FERRY_DEVICE_CALL void serve() const {
    const ArenaView& arena = context->arena;
    RingConsumer consumer(arena.ring(0));
    test::DeviceRandom random(seed);
    Request held[held_max];
    std::uint32_t count = 0;
    for (;;) {
      const bool last = DeviceRef<std::uint32_t>(*finished).load(acquire) == groups - 1;
      const bool took = count < held_max && consumer.take(held[count]);
      if (took) {
        const Request& got = held[count++];
        const auto group = static_cast<std::uint32_t>(got.file);
        // R2: every ticket once, and those of one group in its order.
        if (!checks.right(group > 0 && group < groups)) return;
        checks.equal(got.offset, taken[group]++);
      }
      if (count > 0 && (!took || random.one_in(2))) {
        const auto chosen = static_cast<std::uint32_t>(random.below(count));
        respond(arena, held[chosen]);
        held[chosen] = held[--count];
      } else if (!took) {
        if (last) return;
        test::let_others_run();
      }
    }
  }
  FERRY_DEVICE void respond(const ArenaView& arena, const Request& request) const {
    AnswerCell& cell = arena.cell(request.cell);
    const bool asleep = answer(cell, request.sequence, result_of(request.offset),
                               static_cast<std::uint64_t>(request.offset) + 1);
#if defined(__CUDA_ARCH__)
    checks.right(!asleep);
#else
    if (asleep) context->hooks.wake(&cell.sequence);
#endif
  }
};

template <class Kind>
class RingGroups : public testing::Test {
 protected:
  static void expect_traffic(std::uint32_t groups, std::uint32_t slots) {
    SCOPED_TRACE(testing::Message() << groups << " groups, " << slots << " slots");
    const test::TestArena arena({.slots_per_ring = slots,
                                 .groups = groups,
                                 .cells_per_group = batch_max,
                                 .files = 1,
                                 .staging_bytes = 4096},
                                4096);
    test::Random random;
    const std::uint64_t requests = test::scaled(2000);
    const test::SharedArray<std::uint32_t> finished(1);
    const test::SharedArray<std::uint64_t> taken(groups);
    const test::SharedArray<std::uint64_t> right(groups);
    const test::ProgramReport report;
    test::run_groups<Kind>(
        groups, Traffic{&arena.context(), groups, requests, random.bits(), finished.data(),
                        taken.data(), right.data(), report.checks()});
    EXPECT_EQ(report.text(), "");
    for (std::uint32_t i = 1; i < groups; ++i) {
      EXPECT_EQ(taken[i], requests) << "group " << i;
      EXPECT_EQ(right[i], requests) << "group " << i;
      EXPECT_EQ(read_counter(arena.view().counters(i).calls), requests);
    }
    EXPECT_EQ(arena.view().ring(0).tickets->tail, requests * (groups - 1));
    EXPECT_EQ(arena.view().ring(0).head->head, requests * (groups - 1));
  }
  // As many as make a difference, and that fit on a GPU at once.
  static constexpr std::uint32_t many = test::lanes_are_real ? 120 : 6;
};
TYPED_TEST_SUITE(RingGroups, test::EveryKind, test::NameOfKind);

TYPED_TEST(RingGroups, ShareFewSlots) {
  this->expect_traffic(this->many, batch_max);
}
TYPED_TEST(RingGroups, ShareManySlots) {
  this->expect_traffic(this->many, 256);
}

}  // namespace
}  // namespace ferry::device
