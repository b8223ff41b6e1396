#include "simulator/scheduler.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <execinfo.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulator/real_calls.hpp"

namespace ferry::simulator {

TurnScheduler* scheduler = nullptr;
thread_local Thread* self = nullptr;
std::uint64_t calls_counted = 0;

namespace {

// A store is not seen by others for at most this long.
constexpr std::uint64_t store_delay_ns = 3'000;
constexpr std::uint64_t yield_ns_first = 20'000;
constexpr unsigned yield_doublings_max = 7;

// Found before there are threads: they call it before they have their turn.
const auto real_syscall = real(syscall);

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  real_syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

TurnScheduler::TurnScheduler(std::uint64_t seed) : choices_(seed) {
  // Half of the runs change threads at random, seldom to often; the others give threads priorities
  // that change at a few points (Burckhardt et al. 2010).
  by_priority_ = choices_.one_in(2);
  weight_bits_max_ = (by_priority_ ? 9 : 8) + 3 * choices_.below(3);
  delays_stores_ = choices_.one_in(2);
  draw_countdown();
  if (const char* text = std::getenv("FERRY_SIMULATOR_STOP_MS"); text != nullptr)
    stops_at_ = std::strtoull(text, nullptr, 10) * 1'000'000;
}

void TurnScheduler::begin() {
  threads_.push_back(std::make_unique<Thread>());
  self = threads_[0].get();
  self->real = pthread_self();
  self->priority = choices_.bits() | 1U << 21;
  running_since_ = now_;
}

std::string TurnScheduler::end() {
  std::string left;
  for (const auto& thread : threads_)
    if (thread.get() != self && thread->state != Thread::State::finished)
      left += " " + thread->name;
  self = nullptr;
  return left.empty() ? "" : "threads are left:" + left;
}

// Of any length up to the longest, short ones as often as long ones.
void TurnScheduler::draw_countdown() {
  const std::uint64_t limit = std::uint64_t{8} << choices_.below(weight_bits_max_ - 2);
  countdown_ = 1 + static_cast<std::int64_t>(choices_.below(limit));
}

void TurnScheduler::become_quiet() {
  quiet_ = true;
  flush_all_stores();
  delays_stores_ = false;
}

void TurnScheduler::note(std::uint64_t what) {
  digest_ = (digest_ ^ what) * 0x100000001b3;
  digest_ ^= digest_ >> 29;
}

// ---- stores that others do not see yet

void TurnScheduler::flush_store(Thread& thread) {
  const DelayedStore store = thread.stores.front();
  thread.stores.pop_front();
  std::memcpy(store.address, &store.value, store.bytes);  // the low bytes come first
}

void TurnScheduler::flush_stores(Thread& thread) {
  while (!thread.stores.empty())
    flush_store(thread);
}

void TurnScheduler::delay_stores_in(const void* memory, std::size_t bytes) {
  flush_all_stores();
  delayed_first_ = memory;
  delayed_last_ = static_cast<const char*>(memory) + bytes;
}

void TurnScheduler::flush_all_stores() {
  for (const auto& thread : threads_)
    flush_stores(*thread);
}

// ---- whose turn it is

void TurnScheduler::change_at_point() {
  draw_countdown();
  if (quiet_ || self->steps_in_one > 0) return;
  if (by_priority_) self->priority = --lowest_priority_;
  reschedule();
}

void TurnScheduler::yield() {
  // Someone else's turn, or some time: nobody yields without a reason.
  const unsigned yields = self->yields + 1;
  const std::uint64_t most = yield_ns_first << std::min(self->yields / 32, yield_doublings_max);
  sleep(nullptr, now_ + 200 + choices_.below(most), "yields");
  self->yields = yields;
}

void TurnScheduler::wake_those_in_time() {
  for (const auto& thread : threads_) {
    if (thread->state == Thread::State::asleep && thread->deadline <= now_) {
      thread->state = Thread::State::runnable;
      thread->woken = false;
    }
  }
}

Thread* TurnScheduler::choose() {
  for (const auto& thread : threads_)
    while (!thread->stores.empty() && thread->stores.front().since_ns + store_delay_ns < now_)
      flush_store(*thread);
  wake_those_in_time();
  Thread* best = nullptr;
  std::uint64_t ready = 0;
  for (const auto& thread : threads_) {
    if (thread->state != Thread::State::runnable || thread->held_up_until > now_) continue;
    ++ready;
    if (by_priority_) {
      if (best == nullptr || thread->priority > best->priority) best = thread.get();
    } else if (choices_.one_in(ready)) {
      best = thread.get();
    }
  }
  return best;
}

// Everybody sleeps: until the first of them does not.
void TurnScheduler::let_time_pass() {
  std::uint64_t next = never;
  bool held_up = false;
  for (const auto& thread : threads_) {
    if (thread->state == Thread::State::asleep) next = std::min(next, thread->deadline);
    if (thread->state == Thread::State::runnable) {
      next = std::min(next, thread->held_up_until);
      held_up = true;
    }
  }
  if (next == never) fail("all threads wait for one another");
  if (next > now_ + stall_ns && !held_up && is_no_stall_expected())
    fail("nothing happens for " + std::to_string((next - now_) / 1'000'000) +
         " ms while a call waits: a wake-up was lost");
  now_ = std::max(now_, next);
}

bool TurnScheduler::is_no_stall_expected() const {
  Thread* me = std::exchange(self, nullptr);  // the function has no points
  const bool expected = expects_no_stall && expects_no_stall();
  self = me;
  return expected;
}

void TurnScheduler::reschedule() {
  if (now_ >= stops_at_) fail("stopped by FERRY_SIMULATOR_STOP_MS");
  self->cpu_ns += now_ - running_since_;
  Thread* next = choose();
  while (next == nullptr) {
    let_time_pass();
    next = choose();
  }
  hand_over(next);
  running_since_ = now_;
}

void TurnScheduler::hand_over(Thread* next) {
  if (next == self) return;
  ++switches_;
  now_ += 50 + choices_.below(400);
  note(next->index * 1000 + now_ % 997);
  Thread* me = self;
  next->turn.store(1);
  futex(next->turn, FUTEX_WAKE_PRIVATE, 1);
  wait_for_turn(*me);
}

void TurnScheduler::wait_for_turn(Thread& thread) {
  for (;;) {
    while (thread.turn.load() == 0)
      futex(thread.turn, FUTEX_WAIT_PRIVATE, 0);
    thread.turn.store(0);
    if (!reports_) break;
    // fail() asks where this thread is, which ends here.
    self = nullptr;
    std::fprintf(stderr, "-- %u %s: %s\n", thread.index, thread.name.c_str(), thread.doing);
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
    reporter_->turn.store(1);
    futex(reporter_->turn, FUTEX_WAKE_PRIVATE, 1);
  }
  bury_ended();
}

// What a thread that has ended still does in the C library is over before this one goes on.
void TurnScheduler::bury_ended() {
  if (ended_ == nullptr) return;
  real(pthread_join)(std::exchange(ended_, nullptr)->real, nullptr);
}

bool TurnScheduler::sleep(const void* key, std::uint64_t deadline, const char* doing) {
  flush_stores(*self);
  self->state = Thread::State::asleep;
  self->key = key;
  self->deadline = deadline;
  self->doing = doing;
  self->yields = 0;
  self->woken = true;
  reschedule();
  self->key = nullptr;
  self->doing = "runs";
  return self->woken;
}

unsigned TurnScheduler::wake(const void* key, unsigned count) {
  flush_stores(*self);
  unsigned woken = 0;
  while (woken < count) {
    Thread* chosen = nullptr;
    std::uint64_t found = 0;
    for (const auto& thread : threads_) {
      if (thread->state != Thread::State::asleep || thread->key != key) continue;
      if (choices_.one_in(++found)) chosen = thread.get();
    }
    if (chosen == nullptr) break;
    chosen->state = Thread::State::runnable;
    chosen->woken = true;
    ++woken;
    if (by_priority_ && chosen->priority > self->priority) countdown_ = 0;
  }
  return woken;
}

// ---- threads

void* TurnScheduler::run_thread(void* argument) {
  auto* thread = static_cast<Thread*>(argument);
  self = thread;
  scheduler->wait_for_turn(*thread);
  thread->doing = "runs";
  thread->result = thread->start(thread->argument);
  scheduler->flush_stores(*thread);
  thread->state = Thread::State::finished;
  thread->cpu_ns += scheduler->now_ - scheduler->running_since_;
  scheduler->wake(thread, UINT_MAX);
  Thread* next = scheduler->choose();
  while (next == nullptr) {
    scheduler->let_time_pass();
    next = scheduler->choose();
  }
  ++scheduler->switches_;
  scheduler->note(next->index);
  scheduler->ended_ = thread;
  scheduler->running_since_ = scheduler->now_;
  self = nullptr;
  next->turn.store(1);
  futex(next->turn, FUTEX_WAKE_PRIVATE, 1);
  return thread->result;
}

Thread* TurnScheduler::start_thread(void* (*start)(void*), void* argument) {
  auto made = std::make_unique<Thread>();
  Thread* thread = made.get();
  thread->index = static_cast<unsigned>(threads_.size());
  thread->name = "thread";
  thread->doing = "begins";
  thread->start = start;
  thread->argument = argument;
  thread->priority = choices_.bits() | 1U << 21;
  threads_.push_back(std::move(made));
  if (real(pthread_create)(&thread->real, nullptr, &run_thread, thread) != 0) {
    std::fputs("simulator: no thread can be started\n", stderr);
    _exit(3);
  }
  return thread;
}

void* TurnScheduler::join(Thread* thread) {
  while (thread->state != Thread::State::finished)
    sleep(thread, never, "joins a thread");
  return thread->result;
}

Thread* TurnScheduler::find(pthread_t real) const {
  for (const auto& thread : threads_)
    if (thread->real == real && thread->state != Thread::State::finished) return thread.get();
  for (const auto& thread : threads_)
    if (thread->real == real) return thread.get();
  return nullptr;
}

Thread* TurnScheduler::with_id(int id) const {
  const auto index = static_cast<std::size_t>(id - first_thread_id);
  return id >= first_thread_id && index < threads_.size() ? threads_[index].get() : nullptr;
}

void TurnScheduler::hold_up(const std::string& name, std::uint64_t time_ns, bool is_starved) {
  for (const auto& thread : threads_) {
    if (thread->name != name || thread->state == Thread::State::finished) continue;
    flush_stores(*thread);
    thread->held_up_until = now_ + time_ns;
    thread->is_starved = is_starved;
    return;
  }
}

bool TurnScheduler::is_held_up() const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [&](const auto& thread) { return thread->held_up_until > now_; });
}

// ---- reports

void TurnScheduler::fill(SimulatedRun& run) const {
  run.digest = digest_;
  run.points = points_;
  run.switches = switches_;
  run.simulated_ns = now_;
  run.calls = calls_counted;
}

void TurnScheduler::fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::fprintf(stderr, "at %.6f s of simulated time, after %llu switches, by %s\n",
               static_cast<double>(now_) / 1e9, static_cast<unsigned long long>(switches_),
               self != nullptr ? self->name.c_str() : "no thread");
  std::fprintf(stderr, "threads change %s, stores are seen %s\n",
               by_priority_ ? "by priorities" : "at random", delays_stores_ ? "late" : "at once");
  if (self != nullptr) print_stacks();
  std::fflush(stderr);
  _exit(1);
}

void TurnScheduler::print_stacks() {
  reports_ = true;
  reporter_ = std::exchange(self, nullptr);  // no more points
  void* frames[40];
  std::fprintf(stderr, "-- %u %s\n", reporter_->index, reporter_->name.c_str());
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  for (const auto& thread : threads_) {
    if (thread.get() == reporter_ || thread->state == Thread::State::finished) continue;
    thread->turn.store(1);
    futex(thread->turn, FUTEX_WAKE_PRIVATE, 1);
    while (reporter_->turn.load() == 0)
      futex(reporter_->turn, FUTEX_WAIT_PRIVATE, 0);
    reporter_->turn.store(0);
  }
}

}  // namespace ferry::simulator
