#include "python/interpreter_lock.hpp"

#include <chrono>
#include <cstdint>
#include <thread>

#include "bulk/forks.hpp"

namespace ferry::python {
namespace nb = nanobind;
namespace {

constexpr std::chrono::microseconds look_again{200};

// Guarded by the interpreter's lock.
struct Releases {
  std::uint64_t under_way = 0;
  bool ended = false;
  bulk::MadeHere counted_here;
};

// A child of fork() has none of the threads that its parent counted.
Releases& releases() {
  static Releases all;
  if (!all.counted_here) all = Releases{};
  return all;
}

}  // namespace

LockRelease::LockRelease() {
  Releases& all = releases();
  if (all.ended) return;
  ++all.under_way;
  state_ = PyEval_SaveThread();
}

LockRelease::~LockRelease() {
  if (state_ == nullptr) return;
  PyEval_RestoreThread(state_);
  --releases().under_way;
}

void end_releases() {
  releases().ended = true;
  while (releases().under_way > 0) {
    PyThreadState* state = PyEval_SaveThread();
    std::this_thread::sleep_for(look_again);
    PyEval_RestoreThread(state);
  }
}

void check_signals() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

bool releases_ended() {
  return releases().ended;
}

}  // namespace ferry::python
