#include "bindings/python/interpreter_lock.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "bulk/scheduler.hpp"

namespace ferry::python {
namespace nb = nanobind;
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds look_again{200};
// Bounds the pause of other threads: restarted when end() has returned, because the interpreter's
// end takes less than this. Applies before that too, as end() may wait for a thread that waits for
// the paused one.
constexpr std::chrono::seconds pause_max{2};

// Guarded by the interpreter's lock, except atomics.
struct Releases {
  std::uint64_t under_way = 0;
  std::vector<std::weak_ptr<bulk::Scheduler>> engines;
  bool ending = false;
  std::thread::id ended_by;
  MadeHere counted_here;
};

// When end() returned; before, the clock's epoch. Read without the interpreter's lock.
std::atomic<Clock::rep> ended_at{0};
thread_local bool of_an_engine = false;

// A child of fork() has none of its parent's counted threads, and its own engines.
Releases& releases() {
  static Releases all;
  if (!all.counted_here) {
    all = Releases{};
    ended_at.store(0, std::memory_order_relaxed);
  }
  return all;
}

// Its name changed with Python 3.13, and a module for the stable ABI runs with both.
bool interpreter_goes() {
  using IsFinalizing = int (*)();
  static const auto is_finalizing = [] {
    void* found = ::dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (found == nullptr) found = ::dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    return reinterpret_cast<IsFinalizing>(found);
  }();
  return is_finalizing() != 0;
}

[[noreturn]] void stay() {
  for (;;)
    ::pause();
}

// Python ends threads that want the lock too late by unwinding their stacks, which destructors do
// not survive. (From Python 3.14 on it pauses them, as here.) Not every C++ library can catch that,
// but all run destructors.
void take_lock_back(PyThreadState* state) {
  struct Unwound {
    ~Unwound() {
      if (!returned) stay();
    }
    bool returned = false;
  } unwound;
  PyEval_RestoreThread(state);
  unwound.returned = true;
}

bool must_pause(const Releases& all) {
  return all.ending && all.ended_by != std::this_thread::get_id() && !of_an_engine;
}

// Needs the lock, and releases it meanwhile.
void pause_at_the_end() {
  PyThreadState* state = PyEval_SaveThread();
  const Clock::rep begin = Clock::now().time_since_epoch().count();
  for (;;) {
    if (interpreter_goes()) stay();
    const Clock::duration since(std::max(begin, ended_at.load(std::memory_order_relaxed)));
    if (Clock::now().time_since_epoch() - since > pause_max) break;
    std::this_thread::sleep_for(look_again);
  }
  take_lock_back(state);
}

}  // namespace

LockRelease::LockRelease() {
  Releases& all = releases();
  if (must_pause(all)) pause_at_the_end();
  if (all.ending && !of_an_engine) return;
  ++all.under_way;
  state_ = PyEval_SaveThread();
}

LockRelease::~LockRelease() {
  if (state_ == nullptr) return;
  take_lock_back(state_);
  Releases& all = releases();
  --all.under_way;
  if (must_pause(all)) pause_at_the_end();
}

EngineThread::EngineThread() : before_(std::exchange(of_an_engine, true)) {}

EngineThread::~EngineThread() {
  of_an_engine = before_;
}

void keep(const std::shared_ptr<bulk::Scheduler>& scheduler) {
  auto& engines = releases().engines;
  std::erase_if(engines, [](const auto& one) { return one.expired(); });
  engines.push_back(scheduler);
}

void end() {
  Releases& all = releases();
  all.ending = true;
  all.ended_by = std::this_thread::get_id();
  std::vector<std::shared_ptr<bulk::Scheduler>> engines;
  for (const auto& one : all.engines)
    engines.push_back(one.lock());
  const auto meanwhile = [](const auto& work) {
    PyThreadState* state = PyEval_SaveThread();
    work();
    PyEval_RestoreThread(state);
  };
  meanwhile([&] {
    for (std::shared_ptr<bulk::Scheduler>& engine : engines) {
      if (engine != nullptr && engine->made_here()) engine->stop();
      engine.reset();
    }
  });
  while (all.under_way > 0)
    meanwhile([] { std::this_thread::sleep_for(look_again); });
  ended_at.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool ending() {
  return releases().ending;
}

void check_signals() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace ferry::python
