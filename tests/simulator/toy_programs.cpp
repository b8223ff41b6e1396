#include "simulator/toy_programs.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "base/cpus.hpp"
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

void make_once(bool by_call_once) {
  std::once_flag once;
  std::atomic<bool> is_made{false};
  std::atomic<int> count{0};
  const auto make = [&] {
    sleep_for(1000);
    ++count;
    is_made.store(true);
  };
  const auto use = [&] {
    if (by_call_once) {
      std::call_once(once, make);
    } else if (!is_made.load()) {
      make();
    }
    if (!is_made.load()) fail("used before it is made");
  };
  std::thread one(use);
  std::thread other(use);
  one.join();
  other.join();
  if (count != 1) fail("made " + std::to_string(count) + " times");
}

void watch_a_thread(bool starves) {
  std::atomic<pid_t> number{0};
  std::atomic<bool> over{false};
  std::thread watched([&] {
    name_this_thread("watched");
    number.store(number_of_this_thread());
    while (!over.load())
      point();
  });
  while (number.load() == 0)
    sleep_for(1000);
  hold_up("watched", 1'000'000'000, starves);
  const std::string path = "/proc/self/task/" + std::to_string(number.load()) + "/stat";
  char text[128] = "";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_read = file >= 0 && read(file, text, sizeof text - 1) > 0;
  close(file);
  const bool runs = std::string(text).find(") R ") != std::string::npos;
  if (!is_read || runs != starves) fail("the thread is said to be " + std::string(text));
  over.store(true);
  watched.join();
}

}  // namespace ferry::simulator
