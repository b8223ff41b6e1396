// Placement `service` while its executor waits for a storage that hangs: calls that it has not
// begun are executed on their callers' cores (R9).
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "backend/cpu/lanes.hpp"
#include "runtime/services.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"
#include "support/two_storages.hpp"

namespace ferry {
namespace {

using device::IoVector;
using device::Pending;
using device::Placement;
using test::eventually;
using test::pattern;
using test::read_at;
using test::same_bytes;
using test::within_patience;

constexpr std::uint32_t page = 4096;
constexpr std::uint32_t executor_group = 4;
constexpr std::uint32_t frames = 5;

// Parameter: reserved cores. Without one, the server's loop is the executor.
class HeldUpService : public testing::TestWithParam<unsigned> {
 protected:
  HeldUpService() {
    auto both = std::make_unique<test::TwoStorages>(random.fork());
    storage = &both->failing();
    device::Geometry geometry = test::small_geometry(1, executor_group + 1);
    geometry.services = GetParam();
    server::ServerOptions options;
    options.execute = [this](std::uint32_t loop, const device::Request& request,
                             server::Pump& pump) { return loops->execute(loop, request, pump); };
    rig = std::make_unique<test::ServerRig>(geometry, std::move(both), std::move(options));
    memory = rig->add_cache({page, frames, 16, executor_group + 1, 4});
    device::Context& context = rig->arena.context();
    context.placement = Placement::service;
    if (GetParam() == 0)
      loops = std::make_unique<LoopServices>(context, executor_group);
    else
      threads = std::make_unique<ServiceThreads>(context, executor_group, CpuSet{});
    storage->set_contents(std::string(test::TwoStorages::prefix) + "hung", data);
    test::write_file(healthy_path, data);
  }
  ~HeldUpService() override {
    storage->all_hang = false;
    threads.reset();
    rig.reset();
  }

  std::uint64_t served() const {
    return device::read_counter(rig->arena.view().counters(executor_group).served);
  }
  std::uint64_t taken_back(std::uint32_t group) const {
    return device::read_counter(rig->arena.view().counters(group).taken_back);
  }
  // Callers lend the executor something again, as they do after a while.
  void forget() const {
    const device::Geometry& geometry = rig->arena.view().layout.geometry;
    device::DeviceRef<std::uint64_t>(rig->arena.view()
                                         .ring(geometry.services > 0 ? geometry.rings : 0)
                                         .tickets->held_up_until_ns)
        .store(0, device::relaxed);
  }
  // Returns a thread of group 0 whose call, on a file that hangs, the executor has begun.
  std::thread hold_it_up() {
    hung = rig->calls(0).open((std::string(test::TwoStorages::prefix) + "hung").c_str(), O_RDONLY);
    EXPECT_GT(hung, 0);
    constexpr int tries_max = 20;
    for (int tries = 1;; ++tries) {
      const std::uint64_t before = taken_back(0);
      storage->all_hang = true;
      std::thread caller([this, file = hung] {
        auto files = rig->calls(0);
        EXPECT_TRUE(same_bytes(read_at(files, file, data.size(), 0), data));
      });
      EXPECT_TRUE(eventually([&] { return served() == 1 || taken_back(0) > before; }));
      if (served() == 1 || HasFailure()) return caller;
      if (tries == tries_max) {
        ADD_FAILURE() << "the executor begins no call";
        return caller;
      }
      // On a busy machine the executor may get a CPU too late: once more.
      storage->all_hang = false;
      caller.join();
      EXPECT_EQ(rig->calls(0).evict(hung), 0);
      forget();
    }
  }
  char* arena() const { return reinterpret_cast<char*>(memory); }

  const std::string data = pattern(4 * page, 1);
  test::Random random;
  const test::ScratchDirectory directory;
  const std::string healthy_path = directory / "healthy";
  int hung = 0;
  test::FailingStorage* storage = nullptr;
  std::unique_ptr<test::ServerRig> rig;
  unsigned char* memory = nullptr;  // in the arena
  std::unique_ptr<LoopServices> loops;
  std::unique_ptr<ServiceThreads> threads;
};

TEST_P(HeldUpService, OtherFilesDoNotWait) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  std::thread first = hold_it_up();
  within_patience("calls on a file that does not hang", [&] {
    // Of all kinds: in the arena, staged in several steps, in pieces, asynchronous.
    ASSERT_EQ(files.pread(healthy, arena(), data.size(), 0), 4 * page);
    EXPECT_TRUE(same_bytes({arena(), data.size()}, data));
    EXPECT_GT(taken_back(1), 0U);
    const std::string large = pattern(10 * page, 2);
    EXPECT_EQ(files.pwrite(healthy, large.data(), large.size(), 100), 10 * page);
    EXPECT_TRUE(same_bytes(read_at(files, healthy, large.size(), 100), large));
    const IoVector pieces[] = {{arena() + 100, 50}, {arena(), 100}};
    EXPECT_EQ(files.preadv(healthy, pieces, 2, 100), 150);
    EXPECT_TRUE(same_bytes({arena() + 100, 50}, large.substr(0, 50)));
    EXPECT_TRUE(same_bytes({arena(), 100}, large.substr(50, 100)));
    EXPECT_EQ(files.fsync(healthy), 0);
    EXPECT_TRUE(same_bytes(test::read_file(healthy_path).substr(100), large));
    EXPECT_EQ(files.close(healthy), 0);
  });
  storage->all_hang = false;
  within_patience("the file that hung", [&] { first.join(); });
}

// With one page of the file held and others taken by the hung one.
TEST_P(HeldUpService, ReadsOfPagesThereAndNotThereAreWhole) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  device::cache::PinnedView view;
  ASSERT_EQ(files.hold(healthy, page, page, view), page);
  std::thread first = hold_it_up();
  const std::string wanted = data.substr(100, 3 * page);
  within_patience("a call on a file that does not hang", [&] {
    EXPECT_TRUE(same_bytes(read_at(files, healthy, wanted.size(), 100), wanted));
    EXPECT_TRUE(same_bytes(read_at(files, healthy, wanted.size(), 100), wanted));
  });
  EXPECT_GT(taken_back(1), 0U);
  files.release(view);
  storage->all_hang = false;
  within_patience("the file that hung", [&] { first.join(); });
}

// Those that were lent before it was known.
TEST_P(HeldUpService, AsynchronousCallsDoNotWait) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  std::thread first = hold_it_up();
  Pending reads[4];
  for (std::uint32_t i = 0; i < 4; ++i)
    reads[i] = files.pread_async(healthy, arena() + i * page, page, i * page);
  Pending write = files.pwrite_async(healthy, arena() + 8 * page, 100, 5 * page);
  within_patience("calls that nobody has begun", [&] {
    for (Pending& read : reads)
      EXPECT_EQ(files.wait(read), page);
    EXPECT_EQ(files.wait(write), 100);
  });
  EXPECT_EQ(taken_back(1), 5U);
  EXPECT_TRUE(same_bytes({arena(), data.size()}, data));
  EXPECT_EQ(read_at(files, healthy, 200, 5 * page).size(), 100U);
  storage->all_hang = false;
  within_patience("the file that hung", [&] { first.join(); });
}

TEST_P(HeldUpService, WaitAnyNamesWhatNobodyBegins) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  std::thread first = hold_it_up();
  Pending reads[3];
  for (std::uint32_t i = 0; i < 3; ++i)
    reads[i] = files.pread_async(healthy, arena() + i * page, page, i * page);
  within_patience("calls that nobody has begun", [&] {
    for (std::uint32_t left = 3; left > 0; --left) {
      const std::uint32_t next = files.wait_any(reads, left);
      ASSERT_LT(next, left);
      EXPECT_EQ(files.wait(reads[next]), page);
      reads[next] = reads[left - 1];
    }
  });
  EXPECT_EQ(taken_back(1), 3U);
  EXPECT_TRUE(same_bytes({arena(), 3 * page}, data.substr(0, 3 * page)));
  storage->all_hang = false;
  within_patience("the file that hung", [&] { first.join(); });
}

// Callers of the hung file wait for it on their own cores; all lanes of a group take part.
TEST_P(HeldUpService, EveryoneTakesItsOwnCallsBack) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  std::thread first = hold_it_up();
  std::atomic<bool> read{false};
  std::thread second([&] {
    auto mine = rig->calls(2);
    EXPECT_TRUE(same_bytes(read_at(mine, hung, data.size(), 0), data));
    read = true;
  });
  std::atomic<int> wrong{0};
  std::string outside(100, '?');
  within_patience("calls of a group of lanes", [&] {
    cpu::run_lanes(4, [&](cpu::LaneGroup group) {
      device::FileCalls mine(rig->arena.context(), group, 3);
      if (mine.pread(healthy, arena(), data.size(), 0) != 4 * page) ++wrong;
      Pending pending = mine.pread_async(healthy, arena() + 4 * page, page, page);
      if (mine.wait(pending) != page) ++wrong;
      if (mine.pread(healthy, outside.data(), 100, page) != 100) ++wrong;
    });
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(same_bytes({arena(), data.size()}, data));
  EXPECT_TRUE(same_bytes({arena() + 4 * page, page}, data.substr(page, page)));
  EXPECT_TRUE(same_bytes(outside, data.substr(page, 100)));
  EXPECT_FALSE(read);
  storage->all_hang = false;
  within_patience("the file that hung", [&] {
    first.join();
    second.join();
  });
}

TEST_P(HeldUpService, IsUsedAgainAfterwards) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  std::thread first = hold_it_up();
  within_patience("a call that nobody has begun",
                  [&] { ASSERT_EQ(files.pread(healthy, arena(), 100, 0), 100); });
  storage->all_hang = false;
  within_patience("the file that hung", [&] { first.join(); });
  const std::uint64_t before = served();
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(files.pread(healthy, arena(), 100, 0), 100);
    return served() > before;
  }));
}

// Those that were taken back keep their slots of the ring until the executor finds them.
TEST_P(HeldUpService, AFullRingDoesNotHoldUpOtherFiles) {
  auto files = rig->calls(1);
  const int healthy = files.open(healthy_path.c_str(), O_RDWR);
  std::thread first = hold_it_up();
  const device::Geometry& geometry = rig->arena.view().layout.geometry;
  std::vector<Pending> reads(geometry.cells_per_group - 1);
  within_patience("calls on a file that does not hang", [&] {
    for (std::size_t lent = 0; lent <= geometry.slots_per_ring; lent += reads.size()) {
      forget();
      for (Pending& read : reads)
        read = files.pread_async(healthy, arena(), page, page);
      for (Pending& read : reads)
        EXPECT_EQ(files.wait(read), page);
      EXPECT_TRUE(same_bytes({arena(), page}, data.substr(page, page)));
    }
    forget();
    EXPECT_EQ(files.pread(healthy, arena(), data.size(), 0), 4 * page);
    EXPECT_TRUE(same_bytes({arena(), data.size()}, data));
  });
  storage->all_hang = false;
  within_patience("the file that hung", [&] { first.join(); });
}

INSTANTIATE_TEST_SUITE_P(Cores, HeldUpService, testing::Values(0U, 1U));

// ---- the protocol, without an executor

class UnbegunCall : public testing::Test {
 protected:
  UnbegunCall() {
    geometry.services = 1;
    arena = std::make_unique<test::TestArena>(geometry, page);
  }
  const device::ArenaView& view() const { return arena->view(); }
  device::Ticket submit(device::Requester& requester, std::uint64_t length) const {
    device::Ticket ticket;
    device::Request request = test::request_of(device::Opcode::cached_read, 0, 0, length);
    EXPECT_EQ(requester.prepare(request, ticket, 0, device::Target::service), 0);
    EXPECT_EQ(requester.submit(&request, 1), 0);
    return ticket;
  }

  device::Geometry geometry = test::small_geometry(1, 2);
  std::unique_ptr<test::TestArena> arena;
};

TEST_F(UnbegunCall, IsItsCallersAgain) {
  device::Requester requester(arena->context(), 0);
  const device::Ticket first = submit(requester, 1);
  within_patience("a call that nobody begins", [&] {
    EXPECT_EQ(requester.wait_or_take_back(first).result, device::taken_back);
  });
  EXPECT_EQ(device::read_counter(view().counters(0).taken_back), 1U);
  // Its cell is free, and the executor leaves it alone when it finds the former call.
  const device::Ticket second = submit(requester, 2);
  EXPECT_EQ(second.cell, first.cell);
  device::stop_service(arena->context(), 0);
  within_patience("the end of a service", [&] {
    device::ServiceLoop(arena->context(), device::ThreadGroup{}, 0, 1).run();
    EXPECT_EQ(requester.wait(second).result, -ESHUTDOWN);
  });
}

TEST_F(UnbegunCall, IsItsCallersWhereTheRingHasNoSlot) {
  device::Requester requester(arena->context(), 0);
  for (std::uint32_t i = 0; i < geometry.slots_per_ring; ++i) {
    const device::Ticket ticket = submit(requester, 1);
    ASSERT_EQ(requester.wait_or_take_back(ticket).result, device::taken_back);
  }
  within_patience("a call without a slot", [&] {
    device::Request request = test::request_of(device::Opcode::cached_read, 0, 0, 1);
    EXPECT_EQ(requester.call(request, device::Target::service).result, device::taken_back);
  });
  EXPECT_EQ(device::read_counter(view().counters(0).taken_back), geometry.slots_per_ring + 1);
  EXPECT_FALSE(requester.is_served());
}

TEST_F(UnbegunCall, IsBegunOrTakenBack) {
  device::Requester requester(arena->context(), 0);
  const device::Ticket ticket = submit(requester, 1);
  device::AnswerCell& cell = view().cell(ticket.cell);
  EXPECT_FALSE(device::take_over(cell, ticket.sequence - 1));
  EXPECT_TRUE(device::take_over(cell, ticket.sequence));
  EXPECT_FALSE(device::take_over(cell, ticket.sequence));
  // Somebody has begun it, so its caller waits.
  std::thread executor([&] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * device::unbegun_ns_max));
    device::answer(cell, ticket.sequence, 7, 0);
  });
  within_patience("a call that was begun",
                  [&] { EXPECT_EQ(requester.wait_or_take_back(ticket).result, 7); });
  executor.join();
}

// The executors of a GPU outlive a server that dies, whose end ends the waits of their callers.
TEST_F(UnbegunCall, HasNoEffectAfterItsCallerWasToldOfTheServersEnd) {
  arena->context().always_served = false;
  device::Requester requester(arena->context(), 0);
  const device::Ticket ticket = submit(requester, 1);
  view().loop_state(0).phase = device::LoopPhase::dead;
  within_patience("a call whose server is dead",
                  [&] { EXPECT_EQ(requester.wait_or_take_back(ticket).result, -EIO); });
  EXPECT_FALSE(device::take_over(view().cell(ticket.cell), ticket.sequence));
  EXPECT_EQ(device::read_counter(view().counters(0).taken_back), 0U);
  // Its cell is free.
  view().loop_state(0).phase = device::LoopPhase::running;
  EXPECT_EQ(submit(requester, 1).cell, ticket.cell);
}

TEST_F(UnbegunCall, IsWaitedForOnceBegunAlsoWhenTheServerIsDead) {
  arena->context().always_served = false;
  device::Requester requester(arena->context(), 0);
  const device::Ticket ticket = submit(requester, 1);
  device::AnswerCell& cell = view().cell(ticket.cell);
  ASSERT_TRUE(device::take_over(cell, ticket.sequence));
  view().loop_state(0).phase = device::LoopPhase::dead;
  std::thread executor([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device::answer(cell, ticket.sequence, -EIO, 0);
  });
  // Its executor may use its buffer until then.
  within_patience("a call that was begun", [&] { requester.wait_or_take_back(ticket); });
  EXPECT_TRUE(requester.done(ticket));
  executor.join();
}

TEST_F(UnbegunCall, KeepsTheNextFromTheServiceForAWhile) {
  device::Requester requester(arena->context(), 0);
  std::uint64_t& until = view().ring(geometry.rings).tickets->held_up_until_ns;
  EXPECT_TRUE(requester.is_served());
  until = ~std::uint64_t{0};
  EXPECT_FALSE(requester.is_served());
  until = 1;  // long ago
  EXPECT_TRUE(requester.is_served());
  EXPECT_EQ(until, 0U);
}

}  // namespace
}  // namespace ferry
