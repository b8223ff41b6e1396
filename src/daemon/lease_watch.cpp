#include "daemon/lease_watch.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <future>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "daemon/descriptor_path.hpp"

namespace ferry::daemon {
namespace {

// A queued signal names the descriptor. Where the queue is full the kernel sends SIGIO without one.
int break_signal() {
  return SIGRTMIN + 1;
}
constexpr timespec longest_wait{1, 0};  // also without a signal

sigset_t waited_for() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, break_signal());
  sigaddset(&set, SIGIO);
  return set;
}

}  // namespace

LeaseWatch::LeaseWatch(std::function<void(int)> on_break)
    : on_break_(std::move(on_break)), inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (inotify_ < 0) throw std::system_error(errno, std::generic_category(), "inotify_init1");
  try {
    start();
  } catch (...) {
    close(inotify_);
    throw;
  }
}

void LeaseWatch::start() {
  std::promise<void> started;
  std::future<void> has_started = started.get_future();
  thread_ = std::thread([this, started = std::move(started)]() mutable {
    const sigset_t set = waited_for();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    thread_number_.store(number_of_this_thread());
    started.set_value();
    watch();
  });
  has_started.wait();
  const f_owner_ex owner{F_OWNER_TID, thread_number_.load()};
  if (fcntl(inotify_, F_SETOWN_EX, &owner) == 0 && fcntl(inotify_, F_SETSIG, break_signal()) == 0 &&
      fcntl(inotify_, F_SETFL, O_NONBLOCK | O_ASYNC) == 0)
    return;
  const int error = errno;
  end_thread();
  throw std::system_error(error, std::generic_category(), "signals of inotify");
}

LeaseWatch::~LeaseWatch() {
  end_thread();
  close(inotify_);
}

void LeaseWatch::end_thread() {
  stopping_.store(true);
  syscall(SYS_tgkill, getpid(), thread_number_.load(), SIGIO);
  thread_.join();
}

int LeaseWatch::take(int descriptor, int number) {
  const f_owner_ex owner{F_OWNER_TID, thread_number_.load()};
  const std::lock_guard lock(mutex_);
  // Before the lease: no truncation may come between.
  const int inotify_watch = inotify_add_watch(inotify_, DescriptorPath(descriptor).text, IN_MODIFY);
  if (inotify_watch < 0) return errno;
  // Entered first: a break can come as soon as the lease is there.
  Leases::iterator lease;
  try {
    lease = leases_.insert_or_assign(descriptor, Lease{number, inotify_watch}).first;
  } catch (const std::bad_alloc&) {
    remove_unused(inotify_watch);
    return ENOMEM;
  }
  int error = 0;
  // The owner first: F_SETLEASE would make it the whole process, which the signal would end.
  if (fcntl(descriptor, F_SETOWN_EX, &owner) != 0 ||
      fcntl(descriptor, F_SETSIG, break_signal()) != 0 ||
      fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) {
    error = errno == EAGAIN ? EBUSY : errno == EACCES ? EACCES : EOPNOTSUPP;
    forget(lease);
  }
  return error;
}

bool LeaseWatch::while_held(int descriptor, const std::function<void()>& action) {
  const std::lock_guard lock(mutex_);
  end_truncated();
  const bool held = leases_.contains(descriptor) && fcntl(descriptor, F_GETLEASE) == F_RDLCK;
  if (held) action();
  return held;
}

void LeaseWatch::give_up(int descriptor) {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(descriptor);
  if (found == leases_.end()) return;
  fcntl(descriptor, F_SETLEASE, F_UNLCK);
  forget(found);
}

void LeaseWatch::watch() {
  const sigset_t set = waited_for();
  while (!stopping_.load()) {
    siginfo_t signal{};
    const int got = sigtimedwait(&set, &signal, &longest_wait);
    if (got != break_signal()) end_all_broken();
    if (got == break_signal() && signal.si_fd != inotify_) {
      end_broken(signal.si_fd);
    } else {
      const std::lock_guard lock(mutex_);
      end_truncated();
    }
  }
}

void LeaseWatch::end_broken(int descriptor) {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(descriptor);
  // The number may be another file's by now.
  if (found != leases_.end()) end_if_broken(found);
}

void LeaseWatch::end_if_broken(Leases::iterator lease) {
  if (fcntl(lease->first, F_GETLEASE) != F_RDLCK) end_changed(lease);
}

void LeaseWatch::end_changed(Leases::iterator lease) {
  on_break_(lease->second.number);
  fcntl(lease->first, F_SETLEASE, F_UNLCK);
  forget(lease);
}

void LeaseWatch::forget(Leases::iterator lease) {
  const int inotify_watch = lease->second.inotify_watch;
  leases_.erase(lease);
  remove_unused(inotify_watch);
}

// With the last lease that has it.
void LeaseWatch::remove_unused(int inotify_watch) {
  const bool is_used = std::any_of(leases_.begin(), leases_.end(), [&](const auto& other) {
    return other.second.inotify_watch == inotify_watch;
  });
  if (!is_used) inotify_rm_watch(inotify_, inotify_watch);
}

void LeaseWatch::end_truncated() {
  alignas(inotify_event) char events[4096];
  while (true) {
    const ssize_t bytes = read(inotify_, events, sizeof events);
    if (bytes <= 0) return;
    inotify_event event;
    for (const char* at = events; at < events + bytes; at += sizeof event + event.len) {
      std::memcpy(&event, at, sizeof event);
      if ((event.mask & (IN_MODIFY | IN_Q_OVERFLOW)) != 0) end_watch(event.wd);
    }
  }
}

// -1 stands for all: that is the number of the event for a queue that overflowed.
void LeaseWatch::end_watch(int inotify_watch) {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto next = std::next(lease);
    if (inotify_watch < 0 || lease->second.inotify_watch == inotify_watch) end_changed(lease);
    lease = next;
  }
}

void LeaseWatch::end_all_broken() {
  const std::lock_guard lock(mutex_);
  for (auto lease = leases_.begin(); lease != leases_.end();)
    end_if_broken(lease++);
}

}  // namespace ferry::daemon
