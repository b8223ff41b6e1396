#include "simulator/toy_programs.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "simulator/simulator.hpp"

namespace ferry::simulator {

void hand_over_a_word(bool looks_again) {
  std::atomic<int> word{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> asleep{false};
  std::thread waiter([&] {
    if (word.load() != 0) return;
    std::unique_lock lock(mutex);
    asleep.store(true);
    if (looks_again && word.load() != 0) return;
    changed.wait(lock);
  });
  word.store(1);
  if (asleep.load()) {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  }
  waiter.join();
}

void count_up(bool in_one_step) {
  constexpr int rounds = 20;
  std::atomic<int> count{0};
  const auto work = [&] {
    for (int i = 0; i < rounds; ++i) {
      if (in_one_step) {
        count.fetch_add(1);
      } else {
        count.store(count.load() + 1);
      }
    }
  };
  std::thread one(work);
  std::thread other(work);
  one.join();
  other.join();
  if (count != 2 * rounds) fail("counted " + std::to_string(count));
}

void claim_a_place(bool with_barrier) {
  constexpr int places = 50;
  static std::atomic<int> flags[2][places];
  std::atomic<int> owners[places] = {};
  delay_stores_in(flags, sizeof flags);
  const auto claim = [&](int mine) {
    for (int place = 0; place < places; ++place) {
      const auto stored = with_barrier ? std::memory_order_seq_cst : std::memory_order_release;
      flags[mine][place].store(1, stored);
      if (flags[1 - mine][place].load(std::memory_order_seq_cst) == 0) owners[place].fetch_add(1);
    }
  };
  std::thread one([&] { claim(0); });
  std::thread other([&] { claim(1); });
  one.join();
  other.join();
  for (const std::atomic<int>& owner : owners)
    if (owner > 1) fail("a place has two owners");
}

}  // namespace ferry::simulator
