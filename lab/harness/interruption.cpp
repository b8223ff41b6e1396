#include "harness/interruption.hpp"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include "harness/usage.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

constexpr std::chrono::milliseconds shutdown_deadline{2000};
constexpr std::uint64_t patience_ns = 3'000'000'000;

// For the two ways out that run no destructors. The lock spins, so that a signal handler may take
// it: no thread that holds it touches mapped memory.
std::atomic_flag scratch_lock;
ScratchFiles* first_scratch = nullptr;

void lock_scratch() {
  while (scratch_lock.test_and_set(std::memory_order_acquire)) {
  }
}

void remove_if_possible(const std::string& path) {
  try {
    remove_file(path);
  } catch (const Error&) {
    return;  // its server is gone; who started this process tries again
  }
}

using Caller = ScratchFiles::Caller;

[[noreturn]] void leave_at_once(int status, Caller caller) {
  ScratchFiles::remove_all(caller);
  ::_exit(status);
}

void on_bus_error(int) {
  constexpr char line[] =
      "{\"type\":\"error\",\"cell\":null,\"errno\":5,\"message\":\"a mapped file lost its pages "
      "(SIGBUS): it shrank, its disk is full, or reading it failed\"}\n";
  if (::write(STDOUT_FILENO, line, sizeof line - 1) < 0) leave_at_once(2, Caller::handler);
  leave_at_once(1, Caller::handler);
}

}  // namespace

void hold_signals() {
  SignalThread::block();
  // A closed output, and a file above the limit, are errors of the write.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

Interruption::Interruption(const Runtimes& runtimes)
    : thread_([this, &runtimes] { end_calls(runtimes); },
              [this](int) {
                if (stopped_.exchange(true)) leave_at_once(exit_interrupted, Caller::thread);
              }) {}

void Interruption::end_calls(const Runtimes& runtimes) {
  const std::uint64_t deadline_ns = now_ns() + patience_ns;
  for (const Runtimes::Entry& entry : runtimes.all())
    entry.device->shutdown(shutdown_deadline);
  while (!over_) {
    if (now_ns() > deadline_ns) leave_at_once(exit_interrupted, Caller::thread);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Interruption::check() const {
  if (stopped_.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
}

ScratchFiles::ScratchFiles(std::vector<std::string> paths)
    : paths_(std::move(paths)), may_be_ours_(paths_.size()) {
  lock_scratch();
  next_ = std::exchange(first_scratch, this);
  scratch_lock.clear(std::memory_order_release);
}

ScratchFiles::~ScratchFiles() {
  lock_scratch();
  ScratchFiles** place = &first_scratch;
  while (*place != this)
    place = &(*place)->next_;
  *place = next_;
  remove_with(remove_if_possible);
  scratch_lock.clear(std::memory_order_release);
}

template <class Remove>
void ScratchFiles::remove_with(Remove remove) const {
  const std::size_t count = may_be_ours_;
  for (std::size_t i = 0; i < count; ++i)
    remove(paths_[i]);
}

void ScratchFiles::remove_all(Caller caller) {
  lock_scratch();
  for (const ScratchFiles* files = first_scratch; files != nullptr; files = files->next_) {
    files->remove_with([caller](const std::string& path) {
      if (!is_uri(path)) {
        ::unlink(path.c_str());
      } else if (caller == Caller::thread) {
        remove_if_possible(path);
      }
    });
  }
}

void report_bus_errors() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace ferry::bench
