#include <cerrno>
#include <system_error>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <ferry/signals.hpp>

#include "base/cpus.hpp"

namespace ferry {
namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&set, signal);
  return set;
}

}  // namespace

void SignalThread::block() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalThread::SignalThread(Runtime& runtime, std::chrono::milliseconds deadline,
                           std::function<void(int)> on_signal)
    : SignalThread([&runtime, deadline] { runtime.shutdown(deadline); }, std::move(on_signal)) {}

SignalThread::SignalThread(std::function<void()> shut_down, std::function<void(int)> on_signal)
    : shut_down_(std::move(shut_down)), on_signal_(std::move(on_signal)) {
  const sigset_t set = ending_signals();
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) throw Error(errno, "signalfd");
  leave_ = eventfd(0, EFD_CLOEXEC);
  if (leave_ < 0) {
    const int error = errno;
    ::close(signals_);
    throw Error(error, "eventfd");
  }
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    ::close(leave_);
    ::close(signals_);
    throw Error(error.code().value(), "starting the thread that waits for signals");
  }
}

SignalThread::~SignalThread() {
  eventfd_write(leave_, 1);
  thread_.join();
  ::close(leave_);
  ::close(signals_);
}

void SignalThread::watch() {
  name_this_thread("ferry-signals");
  pollfd watched[] = {{signals_, POLLIN, 0}, {leave_, POLLIN, 0}};
  for (;;) {
    if (poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) return;
    signalfd_siginfo signal{};
    if (::read(signals_, &signal, sizeof signal) != sizeof signal) continue;
    const auto number = static_cast<int>(signal.ssi_signo);
    int none = 0;
    const bool first = received_.compare_exchange_strong(none, number, std::memory_order_release,
                                                         std::memory_order_relaxed);
    if (on_signal_) on_signal_(number);
    if (first) shut_down_();
  }
}

}  // namespace ferry
