#include "daemon/lease_watch.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <future>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry::daemon {
namespace {

// A queued signal names the descriptor. Where the queue is full the kernel sends SIGIO without one.
int break_signal() {
  return SIGRTMIN + 1;
}
constexpr timespec look_around{1, 0};  // also without a signal

sigset_t waited_for() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, break_signal());
  sigaddset(&set, SIGIO);
  return set;
}

}  // namespace

LeaseWatch::LeaseWatch(std::function<void(int)> on_break) : on_break_(std::move(on_break)) {
  std::promise<void> started;
  std::future<void> start = started.get_future();
  thread_ = std::thread([this, started = std::move(started)]() mutable {
    const sigset_t set = waited_for();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    thread_number_.store(gettid());
    started.set_value();
    watch();
  });
  start.wait();
}

LeaseWatch::~LeaseWatch() {
  stopping_.store(true);
  syscall(SYS_tgkill, getpid(), thread_number_.load(), SIGIO);
  thread_.join();
}

int LeaseWatch::take(int descriptor, int number) {
  const f_owner_ex owner{F_OWNER_TID, thread_number_.load()};
  const std::lock_guard lock(mutex_);
  // Entered first: a break can come as soon as the lease is there.
  leases_[descriptor] = number;
  int error = 0;
  // The owner first: F_SETLEASE would make it the whole process, which the signal would end.
  if (fcntl(descriptor, F_SETOWN_EX, &owner) != 0 ||
      fcntl(descriptor, F_SETSIG, break_signal()) != 0 ||
      fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) {
    error = errno == EAGAIN ? EBUSY : EOPNOTSUPP;
    leases_.erase(descriptor);
  }
  return error;
}

bool LeaseWatch::while_held(int descriptor, const std::function<void()>& action) {
  const std::lock_guard lock(mutex_);
  const bool held = leases_.contains(descriptor) && fcntl(descriptor, F_GETLEASE) == F_RDLCK;
  if (held) action();
  return held;
}

void LeaseWatch::give_up(int descriptor) {
  const std::lock_guard lock(mutex_);
  if (leases_.erase(descriptor) != 0) fcntl(descriptor, F_SETLEASE, F_UNLCK);
}

void LeaseWatch::watch() {
  const sigset_t set = waited_for();
  while (!stopping_.load()) {
    siginfo_t signal{};
    const int got = sigtimedwait(&set, &signal, &look_around);
    if (got == break_signal()) {
      end_broken(signal.si_fd);
    } else {
      end_all_broken();
    }
  }
}

void LeaseWatch::end_broken(int descriptor) {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(descriptor);
  // The number may be another file's by now.
  if (found == leases_.end() || fcntl(descriptor, F_GETLEASE) == F_RDLCK) return;
  on_break_(found->second);
  fcntl(descriptor, F_SETLEASE, F_UNLCK);
  leases_.erase(found);
}

void LeaseWatch::end_all_broken() {
  std::vector<int> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [descriptor, number] : leases_)
      all.push_back(descriptor);
  }
  for (const int descriptor : all)
    end_broken(descriptor);
}

}  // namespace ferry::daemon
