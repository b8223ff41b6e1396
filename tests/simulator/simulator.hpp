// Runs a program whose threads take turns, on a simulated clock: a seed decides who continues at
// which point, how time passes and how long a thread is held up. A seed and a build repeat a run
// exactly.
//
// The program's threads are real ones, of which one runs at a time. What waits or tells the time
// (threads.cpp) and every atomic operation, and more rarely every access, of instrumented code
// (points.cpp) are points: there another thread may continue. Code that is not instrumented has
// none, so that what it does between two waits is one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ferry::simulator {

// A small, fast generator with the same numbers on every machine.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {  // SplitMix64
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  // From 0 to count - 1.
  std::uint64_t below(std::uint64_t count) { return bits() % count; }
  // From first to last, both included.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return first + below(last - first + 1);
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

struct SimulatedRun {
  bool failed = false;
  std::string report;          // why, and where every thread was
  std::uint64_t digest = 0;    // of who ran when, and of what was noted
  std::uint64_t points = 0;    // where a thread might have been changed
  std::uint64_t switches = 0;  // where one was
  std::uint64_t simulated_ns = 0;
  std::uint64_t calls = 0;  // count_call()
};

// Runs `program` in a child process, as the first of its threads. The run has failed if fail() was
// called, if all threads wait without an end, if a thread is left over, or if the process dies or
// takes a minute.
SimulatedRun simulate(std::uint64_t seed, const std::function<void()>& program);

// ---- for simulated threads

// Other choices than the scheduler's, which do not change with what is called how often.
Choices fork_choices();
std::uint64_t now_ns();
std::string thread_name();
// Waits until then; others run.
void sleep_until(std::uint64_t when_ns);
void sleep_for(std::uint64_t time_ns);
// Another thread may continue here.
void point();
// While it lives, the calling thread goes on at points: what the simulation itself does is one
// step. Functions of the C++ library have points even there, where the linker chose those of
// instrumented code.
class [[maybe_unused]] OneStep {
 public:
  OneStep();
  ~OneStep();
  OneStep(const OneStep&) = delete;
  OneStep& operator=(const OneStep&) = delete;
};
// Sleeps until notify(key), or then. Returns false if that time has come.
bool wait(const void* key, std::uint64_t until_ns);
void notify(const void* key);
// Becomes a part of the digest.
void note(std::uint64_t what);
void count_call();
[[noreturn]] void fail(const std::string& why);
// In some runs, other threads see stores to this memory with a delay. It must be memory that code
// without points neither frees nor reads.
void delay_stores_in(const void* memory, std::size_t bytes);
// From now on no thread is changed but where it waits.
void become_quiet();

// Holds the first thread of that name up as soon as it runs: `is_starved` of a CPU, or because it
// waits for something that this program does not know.
void hold_up(const std::string& name, std::uint64_t time_ns, bool is_starved);
bool is_held_up();

// While it says yes, it is a fault if all threads sleep for longer than `stall_ns`: something is
// waited for by looking at it again and again, and nobody woke the waiter.
inline constexpr std::uint64_t stall_ns = 20'000'000;
void expect_no_stall(std::function<bool()> expected);

}  // namespace ferry::simulator
