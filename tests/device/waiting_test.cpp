#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>

#include <gtest/gtest.h>

#include <ferry/device/requester.hpp>
#include <ferry/device/waiting.hpp>

#include "support/hooks.hpp"

namespace ferry::device {
namespace {

// A machine with a simulated clock: reading it takes 100 ns, a sleep its time or `on_park`'s.
struct Machine {
  std::uint64_t now_ns = 0;
  std::uint64_t looks_at_clock = 0;
  std::uint64_t parks = 0;
  std::uint64_t yields = 0;
  std::function<void(const std::uint32_t*, std::uint32_t)> on_park;
  std::function<void()> on_yield;
};
Machine machine;

HostHooks hooks() {
  HostHooks made;
  made.park = [](const std::uint32_t* word, std::uint32_t value, std::uint64_t timeout_ns) {
    ++machine.parks;
    machine.now_ns += timeout_ns;
    if (machine.on_park) machine.on_park(word, value);
  };
  made.wake = [](const std::uint32_t*) {};
  made.yield = [] {
    ++machine.yields;
    machine.now_ns += 1'000'000;
    if (machine.on_yield) machine.on_yield();
  };
  made.now_ns = [] {
    ++machine.looks_at_clock;
    return machine.now_ns += 100;
  };
  return made;
}

class Waiting : public testing::Test {
 protected:
  Waiting() { machine = Machine{}; }

  // The answer comes during this sleep.
  void answer_at_park(std::uint64_t number) {
    machine.on_park = [this, number](const std::uint32_t*, std::uint32_t) {
      if (machine.parks == number) word = 1;
    };
  }
  int wait(std::uint32_t wanted) {
    Waiter waiter(policy, host, loop);
    const int error = waiter.until_equal(word, wanted, &parked);
    slept = waiter.slept();
    return error;
  }

  WaitPolicy policy{20'000};
  HostHooks host = hooks();
  LoopState loop{};
  std::uint32_t word = 0;
  std::uint32_t parked = 0;
  bool slept = false;
};

TEST_F(Waiting, ReturnsAtOnceWithTheAnswerThere) {
  word = 5;
  EXPECT_EQ(wait(5), 0);
  EXPECT_FALSE(slept);
  EXPECT_EQ(machine.looks_at_clock, 0U);
}

TEST_F(Waiting, TakesAnAnswerThatIsThereEvenFromADeadServer) {
  word = 5;
  loop.phase = LoopPhase::dead;
  policy.spin_ns = 0;
  EXPECT_EQ(wait(5), 0);
}

TEST_F(Waiting, SpinsForTheAllowedTimeAndThenParks) {
  std::uint64_t spun_ns = 0;
  machine.on_park = [&](const std::uint32_t* at, std::uint32_t value) {
    if (machine.parks == 1) spun_ns = machine.now_ns - park_slice_ns;
    EXPECT_EQ(at, &word);
    EXPECT_EQ(value, 0U);
    EXPECT_EQ(parked, 1U);  // the answering side must know
    word = 9;
  };
  EXPECT_EQ(wait(9), 0);
  EXPECT_TRUE(slept);
  EXPECT_EQ(machine.parks, 1U);
  EXPECT_EQ(parked, 0U);
  EXPECT_GE(spun_ns, policy.spin_ns);
  EXPECT_LE(spun_ns, policy.spin_ns + 1000);
}

TEST_F(Waiting, DoesNotSpinWhereSpinningCannotHelp) {
  policy.spin_ns = 0;
  answer_at_park(1);
  EXPECT_EQ(wait(1), 0);
  EXPECT_EQ(machine.parks, 1U);
  EXPECT_LE(machine.looks_at_clock, 2U);
}

TEST_F(Waiting, ParksOnTheValueItSaw) {
  policy.spin_ns = 0;
  word = 3;
  machine.on_park = [&](const std::uint32_t*, std::uint32_t value) {
    EXPECT_EQ(value, word);
    ++word;
  };
  EXPECT_EQ(wait(7), 0);
  EXPECT_EQ(machine.parks, 4U);
}

TEST_F(Waiting, EndsWhenTheServerIsDead) {
  loop.phase = LoopPhase::dead;
  EXPECT_EQ(wait(1), -EIO);
  EXPECT_EQ(parked, 0U);
}

TEST_F(Waiting, EndsWhenTheServerHasStopped) {
  loop.phase = LoopPhase::stopped;
  EXPECT_EQ(wait(1), -ESHUTDOWN);
  EXPECT_EQ(parked, 0U);
}

TEST_F(Waiting, GoesOnWhileTheServerIsStopping) {
  loop.phase = LoopPhase::stopping;
  answer_at_park(1000);
  EXPECT_EQ(wait(1), 0);
  EXPECT_EQ(machine.parks, 1000U);
}

TEST_F(Waiting, PrefersAnAnswerThatCameJustBeforeTheEnd) {
  policy.spin_ns = 0;
  machine.on_park = [&](const std::uint32_t*, std::uint32_t) {
    word = 1;
    loop.phase = LoopPhase::stopped;
  };
  EXPECT_EQ(wait(1), 0);
}

// A slow disk; or a server stopped by a debugger while its kernel continues.
TEST_F(Waiting, WaitsForASilentServerThatHasNotSaidThatItEnds) {
  answer_at_park(20'000);  // more than a quarter of an hour
  EXPECT_EQ(wait(1), 0);
  EXPECT_EQ(machine.parks, 20'000U);
}

TEST_F(Waiting, ReadsNoClockOnceItSleeps) {
  policy.spin_ns = 0;
  answer_at_park(10);
  EXPECT_EQ(wait(1), 0);
  EXPECT_EQ(machine.looks_at_clock, 0U);
}

// Many may wait for a storage that hangs.
TEST_F(Waiting, WakesUpLessOftenTheLongerItTakes) {
  constexpr std::uint64_t minute_ns = 60'000'000'000;
  std::uint64_t longest_ns = 0;
  std::uint64_t last_ns = 0;
  machine.on_park = [&](const std::uint32_t*, std::uint32_t) {
    longest_ns = std::max(longest_ns, machine.now_ns - last_ns);
    last_ns = machine.now_ns;
    if (machine.now_ns > minute_ns) word = 1;
  };
  EXPECT_EQ(wait(1), 0);
  EXPECT_LT(machine.parks, 200U);
  Waiter waiter(policy, host, loop);
  word = 0;
  machine.now_ns = machine.parks = last_ns = 0;
  EXPECT_EQ(waiter.until_passed(word, 1, parked), 0);
  EXPECT_LT(machine.parks, 200U);
  EXPECT_LE(longest_ns, 1'001'000'000U);
  machine.now_ns = machine.parks = last_ns = longest_ns = 0;
  EXPECT_EQ(waiter.until([] { return machine.now_ns > minute_ns; }, word, nullptr), 0);
  EXPECT_LT(machine.parks, 8000U);
  EXPECT_LE(longest_ns, longest_nap_ns + 1'000'000);
}

TEST_F(Waiting, NeedsNoParkedWord) {
  answer_at_park(1);
  Waiter waiter(policy, host, loop);
  EXPECT_EQ(waiter.until_equal(word, 1, nullptr), 0);
}

TEST_F(Waiting, ForAConditionYieldsUntilItHolds) {
  policy.spin_ns = 0;
  Waiter waiter(policy, host, loop);
  EXPECT_EQ(waiter.until([&] { return machine.yields == 5000; }), 0);
  EXPECT_TRUE(waiter.slept());
  EXPECT_EQ(machine.parks, 0U);
}

TEST_F(Waiting, ForAConditionSleepsOnAWordThatSignalsIt) {
  policy.spin_ns = 0;
  word = 3;
  machine.on_park = [&](const std::uint32_t* at, std::uint32_t value) {
    EXPECT_EQ(at, &word);
    EXPECT_EQ(value, 3U);
  };
  Waiter waiter(policy, host, loop);
  EXPECT_EQ(waiter.until([&] { return machine.parks == 50; }, word, nullptr), 0);
  // Nothing promises to signal it, so no sleep was long.
  EXPECT_LT(machine.now_ns, 50 * park_slice_ns / 10);
}

// So whoever answers wakes a group that waits for any of several answers, if it is the likely one.
TEST_F(Waiting, ForAnyAnswerIsAnnouncedToWhoeverWritesTheLikelyOne) {
  const test::TestArena arena({.slots_per_ring = 4, .groups = 1, .cells_per_group = 4}, 4096);
  Context& context = arena.context();
  context.hooks = hooks();
  Requester requester(context, 0);
  Request request = test::request_of(Opcode::nop);
  Ticket ticket;
  ASSERT_EQ(requester.prepare(request, ticket, 0), 0);
  AnswerCell& cell = context.arena.cell(ticket.cell);
  bool asleep = false;
  machine.on_park = [&](const std::uint32_t* at, std::uint32_t value) {
    EXPECT_EQ(at, &cell.sequence);
    EXPECT_NE(value, ticket.sequence);
    asleep = answer(cell, ticket.sequence, 0, 0);
  };
  EXPECT_TRUE(requester.wait_until([&] { return requester.done(ticket); }, ticket, false));
  EXPECT_TRUE(asleep);
  EXPECT_EQ(machine.parks, 1U);
  EXPECT_EQ(cell.parked, 0U);
}

// The server has ended, and a service goes on with the call.
TEST_F(Waiting, ForTheExecutorOfACallIsCountedToo) {
  const test::TestArena arena(
      {.services = 1, .slots_per_ring = 4, .groups = 1, .cells_per_group = 4}, 4096);
  Context& context = arena.context();
  context.hooks = hooks();
  context.always_served = false;
  Requester requester(context, 0);
  Request request = test::request_of(Opcode::cached_read);
  Ticket ticket;
  ASSERT_EQ(requester.prepare(request, ticket, 0, Target::service), 0);
  AnswerCell& cell = context.arena.cell(ticket.cell);
  cell.unbegun = 0;  // it has begun
  context.arena.loop_state(0).phase = LoopPhase::dead;
  machine.on_park = [&](const std::uint32_t*, std::uint32_t) {
    answer(cell, ticket.sequence, 7, 0);
  };
  EXPECT_EQ(requester.wait(ticket).result, 7);
  EXPECT_EQ(machine.parks, 1U);
  EXPECT_EQ(requester.counters().parks, 1U);
}

TEST_F(Waiting, ForAConditionEndsWithTheServer) {
  for (const auto& [phase, error] :
       {std::pair{LoopPhase::dead, -EIO}, std::pair{LoopPhase::stopped, -ESHUTDOWN}}) {
    loop.phase = phase;
    Waiter waiter(policy, host, loop);
    EXPECT_EQ(waiter.until([] { return false; }), error);
  }
}

TEST_F(Waiting, ForAConditionGoesOnWhileTheServerIsSilent) {
  Waiter waiter(policy, host, loop);
  EXPECT_EQ(waiter.until([] { return machine.yields == 100'000; }), 0);
}

TEST_F(Waiting, ForAConditionThatHoldsDoesNotLookAtTheServer) {
  loop.phase = LoopPhase::dead;
  Waiter waiter(policy, host, loop);
  EXPECT_EQ(waiter.until([] { return true; }), 0);
  EXPECT_FALSE(waiter.slept());
}

}  // namespace
}  // namespace ferry::device
