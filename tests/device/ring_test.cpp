#include <bit>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/requester.hpp>
#include <ferry/device/ring.hpp>

#include "support/depth.hpp"
#include "support/hooks.hpp"
#include "support/within.hpp"

namespace ferry::device {
namespace {

using test::Random;
using test::scaled;

// A ring whose counters start where the test wants them.
class OneRing {
 public:
  explicit OneRing(std::uint32_t slot_count, std::uint64_t start = 0) : slots_(slot_count) {
    std::uint32_t shift = 0;
    while ((1U << shift) < slot_count)
      ++shift;
    tickets_ = RingTickets{start, start, 0};
    head_ = RingHead{start};
    ring = RequestRing{&tickets_, &head_, slots_.data(), slot_count, shift};
    // What the lap before has left behind.
    for (std::uint64_t i = 0; i < slot_count; ++i) {
      const std::uint64_t ticket = start + i;
      ring.slot(ticket).commit = ring.lap(ticket) - 1;
    }
    struct Image {
      RequestRing ring;
      std::uint64_t next;
    };
    consumer = std::bit_cast<RingConsumer>(Image{ring, start});
  }
  OneRing(const OneRing&) = delete;

  RequestRing ring{};
  RingConsumer consumer;

 private:
  RingTickets tickets_{};
  RingHead head_{};
  std::vector<Request> slots_;
};

Request numbered(std::uint64_t number) {
  Request request{};
  request.opcode = Opcode::read;
  request.sequence = 1;
  request.offset = static_cast<std::int64_t>(number);
  return request;
}

void publish(const RequestRing& ring, std::uint64_t ticket, std::uint64_t number) {
  const Request request = numbered(number);
  ring.publish(ticket, &request, 1);
}
void publish_one(const RequestRing& ring, std::uint64_t number) {
  publish(ring, test::claim(ring), number);
}

TEST(Ring, HandsOverEveryField) {
  OneRing one(4);
  Request request{};
  request.opcode = Opcode::write_vector;
  request.flags = 0xA5;
  request.reserved = 0x1234;
  request.cell = 0xDEADBEEF;
  request.sequence = 0xCAFEF00D;
  request.file = -7;
  request.mode = 0777;
  request.offset = std::numeric_limits<std::int64_t>::min();
  request.buffer = std::numeric_limits<std::uint64_t>::max();
  request.length = 0x1122334455667788;
  request.argument = -1;
  request.kept = 0x99;
  one.ring.publish(test::claim(one.ring, 1), &request, 1);
  Request got{};
  ASSERT_TRUE(one.consumer.take(got));
  EXPECT_EQ(got.opcode, request.opcode);
  EXPECT_EQ(got.flags, request.flags);
  EXPECT_EQ(got.reserved, request.reserved);
  EXPECT_EQ(got.cell, request.cell);
  EXPECT_EQ(got.sequence, request.sequence);
  EXPECT_EQ(got.file, request.file);
  EXPECT_EQ(got.mode, request.mode);
  EXPECT_EQ(got.offset, request.offset);
  EXPECT_EQ(got.buffer, request.buffer);
  EXPECT_EQ(got.length, request.length);
  EXPECT_EQ(got.argument, request.argument);
  EXPECT_EQ(got.kept, request.kept);
}

TEST(Ring, IsEmptyUntilTheFirstTicketIsPublished) {
  OneRing one(4);
  Request got{};
  EXPECT_FALSE(one.consumer.ready());
  EXPECT_FALSE(one.consumer.take(got));
  const std::uint64_t first = test::claim(one.ring, 1);
  const std::uint64_t second = test::claim(one.ring, 1);
  EXPECT_FALSE(one.consumer.take(got));
  EXPECT_EQ(one.consumer.outstanding(), 2U);
  publish(one.ring, second, 2);
  EXPECT_FALSE(one.consumer.ready()) << "the first ticket is still out";
  EXPECT_FALSE(one.consumer.take(got));
  publish(one.ring, first, 1);
  EXPECT_TRUE(one.consumer.ready());
  ASSERT_TRUE(one.consumer.take(got));
  EXPECT_EQ(got.offset, 1);
  ASSERT_TRUE(one.consumer.take(got));
  EXPECT_EQ(got.offset, 2);
  EXPECT_FALSE(one.consumer.take(got));
  EXPECT_EQ(one.consumer.outstanding(), 0U);
}

TEST(Ring, DoesNotTakeTheLapBeforeForThisOne) {
  OneRing one(2);
  Request got{};
  for (std::uint64_t i = 0; i < 6; ++i) {
    publish_one(one.ring, i);
    ASSERT_TRUE(one.consumer.take(got));
    EXPECT_FALSE(one.consumer.ready());
    EXPECT_FALSE(one.consumer.take(got)) << i;
  }
}

TEST(Ring, HasRoomForWhatFits) {
  OneRing one(4);
  EXPECT_TRUE(one.ring.has_room(0, 4));
  EXPECT_FALSE(one.ring.has_room(1, 4));
  EXPECT_FALSE(one.ring.has_room(4, 1));
  Request got{};
  for (std::uint64_t i = 0; i < 4; ++i)
    publish_one(one.ring, i);
  EXPECT_FALSE(one.ring.has_room(4, 1));
  ASSERT_TRUE(one.consumer.take(got));
  EXPECT_TRUE(one.ring.has_room(4, 1));
  EXPECT_FALSE(one.ring.has_room(5, 1));
  EXPECT_FALSE(one.ring.has_room(4, 2));
}

TEST(Ring, AFullRingGivesNoTicket) {
  OneRing one(4);
  std::uint64_t ticket = 77;
  EXPECT_FALSE(one.ring.try_claim(5, ticket)) << "more than it has slots";
  for (std::uint64_t i = 0; i < 3; ++i)
    publish_one(one.ring, i);
  EXPECT_FALSE(one.ring.try_claim(2, ticket));
  EXPECT_EQ(ticket, 77U);
  EXPECT_EQ(one.consumer.outstanding(), 3U) << "a failed claim takes no ticket";
  EXPECT_TRUE(one.ring.try_claim(1, ticket));
  EXPECT_EQ(ticket, 3U);
}

TEST(Ring, LooksAgainWhenTheKnownHeadIsOld) {
  OneRing one(4);
  Request got{};
  for (std::uint64_t i = 0; i < 4; ++i) {
    publish_one(one.ring, i);
    ASSERT_TRUE(one.consumer.take(got));
  }
  one.ring.tickets->known_head = 0;  // as after a race between two claimants
  EXPECT_TRUE(one.ring.has_room(4, 4));
  EXPECT_EQ(one.ring.tickets->known_head, 4U);
}

TEST(Ring, AnswerTellsWhetherSomebodySleeps) {
  AnswerCell cell{};
  EXPECT_FALSE(answer(cell, 7, -5, 9));
  EXPECT_EQ(cell.sequence, 7U);
  EXPECT_EQ(cell.result, -5);
  EXPECT_EQ(cell.value, 9U);
  cell.parked = 1;
  EXPECT_TRUE(answer(cell, 8, 0, 0));
}

// Where the counters start; the number of slots is 8.
class RingLaps : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RingLaps, KeepOrderAcrossWrapAround) {
  OneRing one(8, GetParam());
  Random random;
  std::uint64_t published = 0;
  std::uint64_t taken = 0;
  Request got{};
  while (taken < 500) {
    const auto count = static_cast<std::uint32_t>(random.between(1, 8));
    const bool fits = published + count - taken <= 8;
    EXPECT_EQ(one.ring.has_room(GetParam() + published, count), fits);
    std::uint64_t ticket = 0;
    ASSERT_EQ(one.ring.try_claim(count, ticket), fits);
    if (fits) {
      ASSERT_EQ(ticket, GetParam() + published);
      std::vector<Request> batch;
      for (std::uint32_t i = 0; i < count; ++i)
        batch.push_back(numbered(published++));
      one.ring.publish(ticket, batch.data(), count);
    }
    EXPECT_EQ(one.consumer.outstanding(), published - taken);
    for (std::uint64_t n = random.below(9); n > 0 && one.consumer.take(got); --n) {
      ASSERT_EQ(got.offset, static_cast<std::int64_t>(taken));
      ++taken;
    }
    EXPECT_EQ(one.consumer.ready(), taken < published);
  }
}

constexpr std::uint64_t laps_32 = std::uint64_t{8} << 32;  // 2^32 laps of 8 slots
INSTANTIATE_TEST_SUITE_P(Starts, RingLaps,
                         testing::Values(std::uint64_t{0}, std::uint64_t{5},
                                         (std::uint64_t{1} << 32) - 20, laps_32 - 100, laps_32 - 3,
                                         std::uint64_t{1} << 63,
                                         std::numeric_limits<std::uint64_t>::max() - 97));

// The rest runs several threads. A hand-made server: takes requests, keeps some of them for a
// while, answers in any order, parks when there is nothing to do.
std::int64_t expected_result(std::int64_t offset) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(offset) * 0x9e3779b97f4a7c15ULL) >>
                                   1);
}
std::uint64_t expected_value(std::int64_t offset) {
  return ~static_cast<std::uint64_t>(offset);
}

class SmallServer {
 public:
  SmallServer(const ArenaView& arena, Random random) : arena_(arena), random_(random.fork()) {
    for (std::uint32_t ring = 0; ring < arena.layout.geometry.rings; ++ring)
      consumers_.emplace_back(arena.ring(ring));
    thread_ = std::thread([this] { serve(); });
  }
  ~SmallServer() { stop(); }
  SmallServer(const SmallServer&) = delete;

  void stop() {
    if (!thread_.joinable()) return;
    SystemRef<LoopPhase>(arena_.loop_state(0).phase).store(LoopPhase::stopping, seq_cst);
    LoopDoorbell& bell = arena_.doorbell(0);
    SystemRef<std::uint32_t>(bell.count).fetch_add(1, release);
    futex_wake_all(&bell.count);
    thread_.join();
  }

  // After stop().
  std::uint64_t answered = 0;
  std::uint64_t nops = 0;
  std::uint64_t parks = 0;

 private:
  void serve() {
    LoopState& state = arena_.loop_state(0);
    LoopDoorbell& bell = arena_.doorbell(0);
    const SystemRef<LoopPhase> phase(state.phase);
    std::vector<Request> held;
    for (;;) {
      const bool stopping = phase.load(acquire) != LoopPhase::running;
      const bool took = take(held);
      if (!held.empty() && (!took || random_.one_in(3))) {
        random_.shuffle(held);
        const std::uint64_t count = random_.between(1, held.size());
        for (std::uint64_t i = 0; i < count; ++i) {
          respond(held.back());
          held.pop_back();
        }
        continue;
      }
      if (took) continue;
      if (stopping && held.empty() && outstanding() == 0) break;
      park(state, bell, stopping);
    }
    phase.store(LoopPhase::stopped, release);
  }

  bool take(std::vector<Request>& held) {
    bool took = false;
    Request request{};
    for (RingConsumer& consumer : consumers_) {
      for (std::uint64_t n = random_.between(1, 8); n > 0 && consumer.take(request); --n) {
        took = true;
        if (request.sequence == 0) {
          ++nops;
        } else {
          held.push_back(request);
        }
      }
    }
    return took;
  }

  void respond(const Request& request) {
    AnswerCell& cell = arena_.cell(request.cell);
    ++answered;
    if (answer(cell, request.sequence, expected_result(request.offset),
               expected_value(request.offset))) {
      futex_wake_all(&cell.sequence);
    }
  }

  std::uint64_t outstanding() const {
    std::uint64_t sum = 0;
    for (const RingConsumer& consumer : consumers_)
      sum += consumer.outstanding();
    return sum;
  }

  // R6, as a server must do it. The sleep exceeds the test's patience: a lost wake-up shows.
  void park(LoopState& state, LoopDoorbell& bell, bool stopping) {
    const std::uint32_t seen = SystemRef<std::uint32_t>(bell.count).load(acquire);
    SystemRef<std::uint32_t> parked(state.parked);
    parked.store(1, seq_cst);
    bool work = false;
    for (const RingConsumer& consumer : consumers_)
      work = work || consumer.ready();
    if (!work && SystemRef<LoopPhase>(state.phase).load(acquire) == LoopPhase::running) {
      ++parks;
      futex_wait(&bell.count, seen, 600'000'000'000);
    } else if (stopping) {
      std::this_thread::yield();
    }
    parked.store(0, relaxed);
  }

  const ArenaView arena_;
  Random random_;
  std::vector<RingConsumer> consumers_;
  std::thread thread_;
};

struct Load {
  std::uint32_t slots = 8;
  std::uint32_t rings = 1;
  std::uint32_t producers = 2;
  std::uint32_t cells = 4;
  std::uint32_t batch_max = 2;
  std::uint64_t spin_ns = 0;
};

test::TestArena make_arena(const Load& load) {
  test::TestArena arena({.rings = load.rings,
                         .slots_per_ring = load.slots,
                         .groups = load.producers,
                         .cells_per_group = load.cells,
                         .files = 1,
                         .staging_bytes = 4096},
                        4096);
  arena.context().wait.spin_ns = load.spin_ns;
  return arena;
}

// One producer: batches of random size, waited for in random order. Returns the number of requests;
// counts wrong answers.
struct Producer {
  std::uint64_t submitted = 0;
  std::uint64_t wrong = 0;
  int last_error = 0;

  void run(const Context& context, std::uint32_t index, const Load& load, std::uint64_t requests,
           Random random) {
    Requester requester(context, index);
    std::vector<std::pair<Ticket, std::int64_t>> waiting;
    std::uint64_t number = 0;
    while (submitted < requests && last_error == 0) {
      Request batch[16];
      std::vector<std::pair<Ticket, std::int64_t>> fresh;
      const auto count = static_cast<std::uint32_t>(random.between(1, load.batch_max));
      while (fresh.size() < count) {
        Request& request = batch[fresh.size()];
        request = numbered(++number * 64 + index);
        Ticket ticket;
        if (requester.prepare(request, ticket, 0) != 0) break;
        fresh.emplace_back(ticket, request.offset);
      }
      if (!fresh.empty()) {
        last_error = requester.submit(batch, static_cast<std::uint32_t>(fresh.size()));
        if (last_error != 0) break;
        submitted += fresh.size();
        waiting.insert(waiting.end(), fresh.begin(), fresh.end());
      }
      random.shuffle(waiting);
      while (!waiting.empty() && (waiting.size() == load.cells || !random.one_in(3)))
        check(requester, waiting);
    }
    while (!waiting.empty())
      check(requester, waiting);
  }

 private:
  void check(Requester& requester, std::vector<std::pair<Ticket, std::int64_t>>& waiting) {
    const auto [ticket, offset] = waiting.back();
    waiting.pop_back();
    const Answer got = requester.wait(ticket);
    if (got.result != expected_result(offset) || got.value != expected_value(offset)) ++wrong;
  }
};

void run_load(const Load& load, std::uint64_t requests, Random& random) {
  SCOPED_TRACE(testing::Message() << load.slots << " slots, " << load.rings << " rings, "
                                  << load.producers << " producers, " << load.cells << " cells, "
                                  << load.batch_max << " in a batch, spin " << load.spin_ns);
  test::TestArena arena = make_arena(load);
  SmallServer server(arena.view(), random);
  std::vector<Producer> producers(load.producers);
  test::at_once("producers", load.producers, random, [&](std::uint32_t i, const Random& own) {
    producers[i].run(arena.context(), i, load, requests, own);
  });
  test::within_patience("their server", [&] { server.stop(); });
  std::uint64_t submitted = 0;
  std::uint64_t batches = 0;
  std::uint64_t doorbells = 0;
  for (std::uint32_t i = 0; i < load.producers; ++i) {
    EXPECT_EQ(producers[i].wrong, 0U);
    EXPECT_EQ(producers[i].last_error, 0);
    EXPECT_GE(producers[i].submitted, requests);
    submitted += producers[i].submitted;
    const GroupCounters& counters = arena.view().counters(i);
    EXPECT_EQ(read_counter(counters.calls), producers[i].submitted);
    batches += read_counter(counters.batches);
    doorbells += read_counter(counters.doorbells);
  }
  EXPECT_EQ(server.answered, submitted);
  EXPECT_EQ(server.nops, 0U);
  EXPECT_LE(doorbells, batches);
}

TEST(RingThreads, EveryRequestIsAnsweredOnce) {
  Random random;
  const std::uint32_t slots[] = {2, 4, 8, 256};
  for (int round = 0; round < 16; ++round) {
    Load load;
    load.slots = slots[round % 4];
    load.rings = static_cast<std::uint32_t>(random.between(1, 2));
    load.producers = static_cast<std::uint32_t>(random.between(1, 6));
    load.cells = static_cast<std::uint32_t>(random.between(1, 16));
    load.batch_max = static_cast<std::uint32_t>(
        random.between(1, std::min<std::uint64_t>({load.slots, load.cells, 16})));
    load.spin_ns = random.one_in(2) ? 0 : 20'000;
    run_load(load, scaled(4000), random);
  }
}

TEST(RingThreads, ManyProducersShareTwoSlots) {
  Random random;
  run_load({.slots = 2, .producers = 8, .cells = 2, .batch_max = 2}, scaled(4000), random);
}

TEST(RingThreads, ASingleCellGoesRound) {
  Random random;
  run_load({.producers = 1, .cells = 1, .batch_max = 1}, scaled(20'000), random);
}

// No party spins, so every request finds a server that is asleep or about to be, and every answer
// such a requester.
TEST(RingThreads, SleepersAreWoken) {
  Random random;
  const Load load{.producers = 1, .cells = 1, .batch_max = 1};
  test::TestArena arena = make_arena(load);
  SmallServer server(arena.view(), random);
  Producer producer;
  test::within_patience("a wake-up was lost", [&] {
    producer.run(arena.context(), 0, load, scaled(20'000), random.fork());
    server.stop();
  });
  EXPECT_EQ(producer.wrong, 0U);
  const GroupCounters& counters = arena.view().counters(0);
  EXPECT_GT(read_counter(counters.parks), 0U);
  EXPECT_GT(read_counter(counters.doorbells), 0U);
  EXPECT_GT(server.parks, 0U);
}

// R5: what was published before or during the stop is answered; what comes later is refused.
TEST(RingThreads, StoppingAnswersWhatWasSubmitted) {
  Random random;
  for (std::uint64_t round = 0; round < scaled(300); ++round) {
    const Load load{
        .slots = 2U << random.below(3), .producers = 3, .spin_ns = random.one_in(2) ? 0U : 5'000U};
    test::TestArena arena = make_arena(load);
    SmallServer server(arena.view(), random);
    std::vector<Producer> producers(load.producers);
    test::within_patience("stopping under load", [&] {
      std::vector<std::jthread> threads;
      for (std::uint32_t i = 0; i < load.producers; ++i) {
        threads.emplace_back([&, i, own = random.fork()] {
          producers[i].run(arena.context(), i, load, ~std::uint64_t{0}, own);
        });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
      server.stop();
    });
    std::uint64_t submitted = 0;
    for (const Producer& producer : producers) {
      EXPECT_EQ(producer.wrong, 0U);
      EXPECT_EQ(producer.last_error, -ESHUTDOWN);
      submitted += producer.submitted;
    }
    ASSERT_EQ(server.answered, submitted);
  }
}

class OneRequester : public testing::Test {
 protected:
  OneRequester() : arena(make_arena(load)) {}
  // Two requests that nobody has answered.
  void submit_two(Requester& requester, Ticket (&tickets)[2], std::uint32_t spare) {
    Request requests[2] = {numbered(1), numbered(2)};
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(requester.prepare(requests[i], tickets[i], spare), 0);
    EXPECT_EQ(requester.submit(requests, 2), 0);
  }
  // A server answers them.
  void expect_drained(Requester& requester, const Ticket (&tickets)[2]) {
    Random random;
    SmallServer server(arena.view(), random);
    test::within_patience("drain", [&] { requester.drain(); });
    EXPECT_TRUE(requester.done(tickets[0]));
    EXPECT_TRUE(requester.done(tickets[1]));
  }
  Load load{.slots = 4, .producers = 2, .cells = 3};
  test::TestArena arena;
};

TEST_F(OneRequester, HandsOutEachCellOnceAndKeepsOneSpare) {
  Requester requester(arena.context(), 1);
  std::uint32_t seen = 0;
  Request request{};
  Ticket ticket;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(requester.prepare(request, ticket, 1), 0);
    EXPECT_GE(ticket.cell, 3U);
    EXPECT_LT(ticket.cell, 6U);
    EXPECT_EQ(request.cell, ticket.cell);
    EXPECT_EQ(request.sequence, ticket.sequence);
    EXPECT_NE(ticket.sequence, 0U);
    EXPECT_EQ(seen & (1U << ticket.cell), 0U);
    seen |= 1U << ticket.cell;
  }
  EXPECT_EQ(requester.prepare(request, ticket, 1), -EAGAIN);
  EXPECT_EQ(requester.prepare(request, ticket, 0), 0);
  EXPECT_EQ(requester.prepare(request, ticket, 0), -EAGAIN);
}

TEST_F(OneRequester, RefusesABatchLargerThanTheRing) {
  Requester requester(arena.context(), 0);
  Request requests[5]{};
  Ticket ticket;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(requester.prepare(requests[i], ticket, 0), 0);
  requests[3] = requests[0];
  requests[4] = requests[0];
  EXPECT_EQ(requester.submit(requests, 5), -EINVAL);
  EXPECT_EQ(arena.view().ring(0).tickets->tail, 0U);
  Request again{};
  EXPECT_EQ(requester.prepare(again, ticket, 0), 0) << "the cells are free again";
}

TEST_F(OneRequester, SkipsSequenceZero) {
  arena.view().group(0).issued[0] = std::numeric_limits<std::uint32_t>::max();
  Requester requester(arena.context(), 0);
  Request request{};
  Ticket ticket;
  ASSERT_EQ(requester.prepare(request, ticket, 0), 0);
  EXPECT_EQ(ticket.cell, 0U);
  EXPECT_EQ(ticket.sequence, 1U);
}

TEST_F(OneRequester, PublishesNothingsForAnAbandonedTicket) {
  arena.view().loop_state(0).phase = LoopPhase::stopping;
  Requester requester(arena.context(), 0);
  Request requests[2]{};
  Ticket ticket;
  ASSERT_EQ(requester.prepare(requests[0], ticket, 0), 0);
  ASSERT_EQ(requester.prepare(requests[1], ticket, 0), 0);
  EXPECT_EQ(requester.submit(requests, 2), -ESHUTDOWN);
  RingConsumer consumer(arena.view().ring(0));
  Request got{};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(consumer.take(got));
    EXPECT_EQ(got.opcode, Opcode::nop);
    EXPECT_EQ(got.sequence, 0U);
  }
  EXPECT_EQ(consumer.outstanding(), 0U);
}

TEST_F(OneRequester, FullRingOfADeadServerIsNoTrap) {
  arena.view().loop_state(0).phase = LoopPhase::dead;
  Requester requester(arena.context(), 0);
  for (int i = 0; i < 20; ++i) {
    Request request = numbered(1);
    EXPECT_EQ(requester.call(request).result, -EIO);
  }
  EXPECT_EQ(requester.state().retired, 0U) << "nothing was submitted, so no cell is lost";
}

TEST_F(OneRequester, NeverUsesACellAgainWhoseAnswerMayStillCome) {
  LoopPhase& phase = arena.view().loop_state(0).phase;
  std::uint64_t retired = 0;
  for (int i = 0; i < 3; ++i) {
    Requester requester(arena.context(), 0);
    Request request = numbered(1);
    Ticket ticket;
    ASSERT_EQ(requester.prepare(request, ticket, 0), 0);
    ASSERT_EQ(requester.submit(&request, 1), 0);
    phase = LoopPhase::dead;
    EXPECT_EQ(requester.wait(ticket).result, -EIO);
    phase = LoopPhase::running;
    EXPECT_NE(requester.state().retired, retired);
    retired = requester.state().retired;
  }
  EXPECT_EQ(retired, 7U);
  Requester requester(arena.context(), 0);
  Request request = numbered(1);
  Ticket ticket;
  EXPECT_EQ(requester.prepare(request, ticket, 0), -EAGAIN);
}

// A kernel that ends without drain(): its requests are answered while the next one runs.
class LaterProgram : public OneRequester {
 protected:
  LaterProgram() {
    Requester former(arena.context(), 0);
    submit_two(former, left, 1);
  }
  void respond(const Ticket& ticket, std::int64_t result) const {
    answer(arena.view().cell(ticket.cell), ticket.sequence, result, 0);
  }
  Ticket left[2];
};

TEST_F(LaterProgram, UsesNoCellWhoseAnswerIsStillOut) {
  Requester requester(arena.context(), 0);
  Request request = numbered(3);
  Ticket ticket;
  ASSERT_EQ(requester.prepare(request, ticket, 0), 0);
  EXPECT_NE(ticket.cell, left[0].cell);
  EXPECT_NE(ticket.cell, left[1].cell);
  ASSERT_EQ(requester.submit(&request, 1), 0);
  Request another = numbered(4);
  Ticket none;
  EXPECT_EQ(requester.prepare(another, none, 0), -EAGAIN);
  // The late answers come after that of the new request, and before anybody has read it.
  respond(ticket, 300);
  respond(left[0], 100);
  respond(left[1], 200);
  ASSERT_TRUE(requester.done(ticket));
  EXPECT_EQ(requester.wait(ticket).result, 300);
}

TEST_F(LaterProgram, TakesCellsOverOnceTheyAreAnswered) {
  respond(left[0], 100);
  Requester requester(arena.context(), 0);
  Request requests[3]{};
  Ticket tickets[3];
  ASSERT_EQ(requester.prepare(requests[0], tickets[0], 0), 0);
  ASSERT_EQ(requester.prepare(requests[1], tickets[1], 0), 0);
  EXPECT_EQ(tickets[1].cell, left[0].cell);
  EXPECT_NE(tickets[1].sequence, left[0].sequence);
  EXPECT_EQ(requester.prepare(requests[2], tickets[2], 0), -EAGAIN);
  respond(left[1], 200);
  ASSERT_EQ(requester.prepare(requests[2], tickets[2], 0), 0);
  EXPECT_EQ(tickets[2].cell, left[1].cell);
}

TEST_F(LaterProgram, DrainsWhatWasLeft) {
  Requester requester(arena.context(), 0);
  EXPECT_FALSE(requester.done(left[0]));
  expect_drained(requester, left);
  EXPECT_EQ(requester.state().in_flight, 0U);
}

TEST_F(OneRequester, DrainWaitsForWhatIsInFlight) {
  Requester requester(arena.context(), 0);
  Ticket tickets[2];
  submit_two(requester, tickets, 0);
  expect_drained(requester, tickets);
  Ticket ticket;
  for (int i = 0; i < 3; ++i) {
    Request request{};
    EXPECT_EQ(requester.prepare(request, ticket, 0), 0) << "all cells are free";
  }
}

}  // namespace
}  // namespace ferry::device
