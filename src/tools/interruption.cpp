#include "tools/interruption.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

constexpr int exit_interrupted = 130;
constexpr std::chrono::milliseconds shutdown_deadline{2000};

// For the two ways out that run no destructors. The lock spins, so that a signal handler may take
// it: no thread that holds it touches mapped memory.
std::atomic_flag scratch_lock;
const std::vector<std::string>* scratch_paths = nullptr;

void lock_scratch() {
  while (scratch_lock.test_and_set(std::memory_order_acquire)) {
  }
}

[[noreturn]] void leave_at_once(int status) {
  lock_scratch();
  if (scratch_paths != nullptr) {
    for (const std::string& path : *scratch_paths)
      ::unlink(path.c_str());
  }
  ::_exit(status);
}

void on_bus_error(int) {
  constexpr char line[] =
      "{\"type\":\"error\",\"cell\":null,\"errno\":5,\"message\":\"a mapped file lost its pages "
      "(SIGBUS): it shrank, its disk is full, or reading it failed\"}\n";
  if (::write(STDOUT_FILENO, line, sizeof line - 1) < 0) leave_at_once(2);
  leave_at_once(1);
}

}  // namespace

void hold_signals() {
  SignalThread::block();
  // A closed output, and a file above the limit, are errors of the write.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

Interruption::Interruption(const Runtimes& runtimes)
    : thread_(*runtimes.all().front().runtime, shutdown_deadline, [this, &runtimes](int) {
        if (stopped_.exchange(true)) leave_at_once(exit_interrupted);
        // The thread itself ends the first.
        for (std::size_t i = 1; i < runtimes.all().size(); ++i)
          runtimes.all()[i].runtime->shutdown(shutdown_deadline);
      }) {}

void Interruption::check() const {
  if (stopped_.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
}

ScratchFiles::ScratchFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {
  lock_scratch();
  scratch_paths = &paths_;
  scratch_lock.clear(std::memory_order_release);
}

ScratchFiles::~ScratchFiles() {
  lock_scratch();
  scratch_paths = nullptr;
  if (!kept_) {
    for (const std::string& path : paths_)
      ::unlink(path.c_str());
  }
  scratch_lock.clear(std::memory_order_release);
}

void report_bus_errors() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace ferry::bench
