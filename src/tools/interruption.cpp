#include "tools/interruption.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

namespace ferry::bench {
namespace {

constexpr int exit_interrupted = 130;
constexpr std::chrono::milliseconds shutdown_deadline{2000};

// For the two ways out that run no destructors. Empty: there is no scratch file.
char scratch_path[PATH_MAX];

[[noreturn]] void leave_at_once(int status) {
  if (scratch_path[0] != '\0') ::unlink(scratch_path);
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

ScratchFile::ScratchFile(const std::string& path) : path_(path) {
  if (path.size() < sizeof scratch_path) std::memcpy(scratch_path, path.c_str(), path.size() + 1);
}

ScratchFile::~ScratchFile() {
  scratch_path[0] = '\0';
  if (!kept_) ::unlink(path_.c_str());
}

void report_bus_errors() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace ferry::bench
