// Who runs: what the simulated threads, their clock and their memory share.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <pthread.h>

#include "simulator/simulator.hpp"

namespace ferry::simulator {

inline constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
// Thread ids that the kernel does not give away.
inline constexpr int first_thread_id = 100'000'000;

// A store that other threads do not see yet.
struct DelayedStore {
  void* address;
  std::uint64_t value;
  unsigned bytes;
  std::uint64_t since_ns;
};

struct Thread {
  enum class State : std::uint8_t { runnable, asleep, finished };

  unsigned index = 0;
  std::string name = "main";
  pthread_t real{};
  std::atomic<std::uint32_t> turn{0};  // a futex word: it may run
  State state = State::runnable;
  const void* key = nullptr;  // what it sleeps on
  const char* doing = "";
  std::uint64_t deadline = never;
  bool woken = false;
  std::uint64_t held_up_until = 0;
  bool is_starved = false;
  std::uint64_t priority = 0;
  std::uint64_t cpu_ns = 0;
  unsigned yields = 0;        // since it last slept
  unsigned steps_in_one = 0;  // OneStep
  std::deque<DelayedStore> stores;
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
};

class TurnScheduler {
 public:
  explicit TurnScheduler(std::uint64_t seed);

  // The calling thread becomes the first.
  void begin();
  // Of the first thread; returns what is wrong with those that are left.
  std::string end();

  // A point; `weight` is how much it counts.
  void step(std::int64_t weight) {
    ++points_;
    now_ += 2;
    if ((countdown_ -= weight) <= 0) change_at_point();
  }
  void pass(std::uint64_t time_ns) { now_ += time_ns; }
  // Sleeps until a notification of `key`, or the deadline. Returns false at the deadline.
  bool sleep(const void* key, std::uint64_t deadline, const char* doing);
  // At most `count` of those that sleep on it.
  unsigned wake(const void* key, unsigned count);
  // Rather lets another thread run.
  void yield();

  Thread* start_thread(void* (*start)(void*), void* argument);
  void* join(Thread* thread);
  Thread* find(pthread_t real) const;
  Thread* with_id(int id) const;

  std::uint64_t now() const { return now_; }
  Choices& choices() { return choices_; }
  void note(std::uint64_t what);
  bool delays_store_to(const volatile void* address) const {
    return delays_stores_ && address >= delayed_first_ && address < delayed_last_;
  }
  void delay_stores_in(const void* memory, std::size_t bytes);
  // All, or the oldest.
  void flush_stores(Thread& thread);
  void flush_store(Thread& thread);
  void flush_all_stores();
  // A thread is changed soon.
  void change_soon() { countdown_ = static_cast<std::int64_t>(choices_.below(40)); }
  void become_quiet();
  void hold_up(const std::string& name, std::uint64_t time_ns, bool is_starved);
  bool is_held_up() const;
  std::function<bool()> expects_no_stall;

  // What the threads are doing; every thread prints its own stack.
  [[noreturn]] void fail(const std::string& why);
  std::string problem() const { return problem_; }
  void fill(SimulatedRun& run) const;

 private:
  static void* run_thread(void* thread);
  void change_at_point();
  void draw_countdown();
  void reschedule();
  Thread* choose();
  void wake_those_in_time();
  void let_time_pass();
  bool is_no_stall_expected() const;
  void hand_over(Thread* next);
  void wait_for_turn(Thread& thread);
  void bury_ended();
  void print_stacks();

  Choices choices_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::uint64_t now_ = 1'000'000'000;
  std::int64_t countdown_ = 0;
  std::uint64_t weight_bits_max_ = 8;  // of what lies between two changes
  bool by_priority_ = false;
  bool delays_stores_ = false;
  const volatile void* delayed_first_ = nullptr;
  const volatile void* delayed_last_ = nullptr;
  bool quiet_ = false;
  std::uint64_t lowest_priority_ = 1U << 20;
  std::uint64_t running_since_ = 0;
  std::uint64_t stops_at_ = never;  // to look at a run in the middle
  Thread* ended_ = nullptr;         // handed its turn over for the last time
  std::uint64_t digest_ = 0xcbf29ce484222325;
  std::uint64_t points_ = 0;
  std::uint64_t switches_ = 0;
  std::string problem_;
  Thread* reporter_ = nullptr;
  bool reports_ = false;
};

// The run's, and the calling thread's; null outside of one.
extern TurnScheduler* scheduler;
extern thread_local Thread* self;
extern std::uint64_t calls_counted;

}  // namespace ferry::simulator
