#include "harness/interruption.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "programs/stored_file.hpp"

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

void remove_if_possible(const std::string& path) {
  try {
    remove_file(path);
  } catch (const Error&) {
    return;  // its server is gone; who started this process tries again
  }
}

// A signal handler can remove files of mounted file systems only.
enum class Caller : std::uint8_t { thread, handler };

[[noreturn]] void leave_at_once(int status, Caller caller) {
  lock_scratch();
  if (scratch_paths != nullptr) {
    for (const std::string& path : *scratch_paths) {
      if (!is_uri(path)) {
        ::unlink(path.c_str());
      } else if (caller == Caller::thread) {
        remove_if_possible(path);
      }
    }
  }
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
    : thread_(
          [&runtimes] {
            for (const Runtimes::Entry& entry : runtimes.all())
              entry.device->shutdown(shutdown_deadline);
          },
          [this](int) {
            if (stopped_.exchange(true)) leave_at_once(exit_interrupted, Caller::thread);
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
      remove_if_possible(path);
  }
  scratch_lock.clear(std::memory_order_release);
}

void report_bus_errors() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace ferry::bench
