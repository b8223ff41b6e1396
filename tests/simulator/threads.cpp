// The functions of the C library by which threads begin, wait, tell the time and look at each
// other, defined here in their place: on simulated threads for simulated ones, else as they are.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulator/real_calls.hpp"
#include "simulator/scheduler.hpp"

using ferry::simulator::first_thread_id;
using ferry::simulator::never;
using ferry::simulator::scheduler;
using ferry::simulator::self;
using ferry::simulator::Thread;

namespace {

constexpr std::int64_t call_weight = 32;
constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr int cpus = 8;
// Descriptors of the state of a thread in /proc, one for each thread.
constexpr int first_state_descriptor = 1 << 20;

std::uint64_t in_ns(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * second_ns +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// Sometimes a wait ends for no reason.
std::uint64_t perhaps_sooner(std::uint64_t deadline) {
  if (!scheduler->choices().one_in(100)) return deadline;
  return std::min(deadline, scheduler->now() + scheduler->choices().below(100'000));
}

long futex(std::uint32_t* word, int operation, std::uint32_t value, const timespec* timeout) {
  scheduler->flush_stores(*self);
  scheduler->step(call_weight);
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE) return static_cast<long>(scheduler->wake(word, value));
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
    errno = ENOSYS;
    return -1;
  }
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
    errno = EAGAIN;
    return -1;
  }
  std::uint64_t deadline = never;
  if (timeout != nullptr)
    deadline = in_ns(*timeout) + (command == FUTEX_WAIT ? scheduler->now() : 0);
  const std::uint64_t until = perhaps_sooner(deadline);
  if (scheduler->sleep(word, until, "waits at a futex")) return 0;
  errno = until < deadline ? EINTR : ETIMEDOUT;
  return -1;
}

// A mutex is free while this word of it is 0.
int& word_of(pthread_mutex_t* mutex) {
  return mutex->__data.__lock;
}
bool is_recursive(const pthread_mutex_t* mutex) {
  return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}
int my_number() {
  return static_cast<int>(self->index) + 1;
}

int lock(pthread_mutex_t* mutex) {
  if (is_recursive(mutex) && word_of(mutex) == my_number()) {
    ++mutex->__data.__count;
    return 0;
  }
  scheduler->flush_stores(*self);
  scheduler->step(call_weight);
  while (word_of(mutex) != 0)
    scheduler->sleep(mutex, never, "waits for a mutex");
  word_of(mutex) = my_number();
  return 0;
}

int unlock(pthread_mutex_t* mutex) {
  if (is_recursive(mutex) && mutex->__data.__count > 0) {
    --mutex->__data.__count;
    return 0;
  }
  scheduler->flush_stores(*self);
  word_of(mutex) = 0;
  scheduler->wake(mutex, 1);
  scheduler->step(call_weight);
  return 0;
}

int wait_at(pthread_cond_t* condition, pthread_mutex_t* mutex, std::uint64_t deadline) {
  scheduler->flush_stores(*self);
  word_of(mutex) = 0;
  scheduler->wake(mutex, 1);
  const std::uint64_t until = perhaps_sooner(deadline);
  const bool woken = scheduler->sleep(condition, until, "waits at a condition");
  lock(mutex);
  return woken || until < deadline ? 0 : ETIMEDOUT;
}

// The C library's own would wait outside the simulation.
int call_once(pthread_once_t* control, void (*function)()) {
  enum : int { fresh, begun, done };
  scheduler->flush_stores(*self);
  scheduler->step(call_weight);
  while (*control == begun)
    scheduler->sleep(control, never, "waits for a first call");
  if (*control == done) return 0;
  *control = begun;
  try {
    function();
  } catch (...) {
    *control = fresh;
    scheduler->wake(control, UINT_MAX);
    throw;
  }
  scheduler->flush_stores(*self);
  *control = done;
  scheduler->wake(control, UINT_MAX);
  return 0;
}

int sleep(std::uint64_t until) {
  scheduler->sleep(nullptr, until, "sleeps");
  return 0;
}

// Whose state a path of /proc names, as server/server.cpp reads it; null: none.
Thread* thread_of_state(const char* path) {
  int id = 0;
  char rest[8] = "";
  if (std::sscanf(path, "/proc/self/task/%d/%7s", &id, rest) != 2) return nullptr;
  return std::strcmp(rest, "stat") == 0 ? scheduler->with_id(id) : nullptr;
}

}  // namespace

extern "C" {

// ---- threads

int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (self == nullptr) return real(pthread_create)(made, attributes, start, argument);
  scheduler->flush_stores(*self);
  *made = scheduler->start_thread(start, argument)->real;
  scheduler->step(call_weight);
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  if (self == nullptr) return real(pthread_join)(thread, result);
  void* got = scheduler->join(scheduler->find(thread));
  if (result != nullptr) *result = got;
  return 0;
}

int pthread_setname_np(pthread_t thread, const char* name) {
  if (self == nullptr) return real(pthread_setname_np)(thread, name);
  scheduler->find(thread)->name = name;
  return 0;
}

int pthread_setaffinity_np(pthread_t thread, std::size_t bytes, const cpu_set_t* set) {
  return self != nullptr ? 0 : real(pthread_setaffinity_np)(thread, bytes, set);
}

// Every run has the same CPUs, on any machine.
int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* set) noexcept {
  if (self == nullptr) return real(sched_getaffinity)(process, bytes, set);
  CPU_ZERO_S(bytes, set);
  for (std::size_t cpu = 0; cpu < cpus; ++cpu)
    CPU_SET_S(cpu, bytes, set);
  return 0;
}

// Nor does it have huge pages, which may be there in one run and not in the next.
void* mmap(void* wanted, std::size_t bytes, int access, int flags, int file,
           off_t offset) noexcept {
  if (self != nullptr && (flags & MAP_HUGETLB) != 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(mmap)(wanted, bytes, access, flags, file, offset);
}

int open(const char* path, int flags, ...) {
  if (self != nullptr) {
    if (const Thread* thread = thread_of_state(path); thread != nullptr)
      return first_state_descriptor + static_cast<int>(thread->index);
  }
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  return real(open)(path, flags, mode);
}

ssize_t read(int file, void* buffer, std::size_t bytes) {
  if (self == nullptr || file < first_state_descriptor) return real(read)(file, buffer, bytes);
  const int id = first_thread_id + file - first_state_descriptor;
  const Thread& thread = *scheduler->with_id(id);
  const bool runs = thread.state == Thread::State::runnable &&
                    (thread.held_up_until <= scheduler->now() || thread.is_starved);
  const int length =
      std::snprintf(static_cast<char*>(buffer), bytes, "%d (thread) %c 1", id, runs ? 'R' : 'S');
  return std::min<ssize_t>(length, static_cast<ssize_t>(bytes) - 1);
}

int close(int file) {
  return self != nullptr && file >= first_state_descriptor ? 0 : real(close)(file);
}

// ---- mutexes and conditions

int pthread_once(pthread_once_t* control, void (*function)()) {
  if (self == nullptr) return real(pthread_once)(control, function);
  return call_once(control, function);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return self == nullptr ? real(pthread_mutex_lock)(mutex) : lock(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (self == nullptr) return real(pthread_mutex_trylock)(mutex);
  if (word_of(mutex) != 0 && !(is_recursive(mutex) && word_of(mutex) == my_number())) {
    scheduler->step(call_weight);
    return EBUSY;
  }
  return lock(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  return self == nullptr ? real(pthread_mutex_unlock)(mutex) : unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (self == nullptr) return real(pthread_cond_wait)(condition, mutex);
  return wait_at(condition, mutex, never);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  if (self == nullptr) return real(pthread_cond_timedwait)(condition, mutex, until);
  return wait_at(condition, mutex, in_ns(*until));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  if (self == nullptr) return real(pthread_cond_clockwait)(condition, mutex, clock, until);
  return wait_at(condition, mutex, in_ns(*until));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (self == nullptr) return real(pthread_cond_signal)(condition);
  scheduler->wake(condition, 1);
  scheduler->step(call_weight);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (self == nullptr) return real(pthread_cond_broadcast)(condition);
  scheduler->wake(condition, UINT_MAX);
  scheduler->step(call_weight);
  return 0;
}

int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  return self == nullptr ? real(pthread_cond_destroy)(condition) : 0;
}

// ---- time

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (self == nullptr) return real(clock_gettime)(clock, time);
  scheduler->pass(20);
  scheduler->step(call_weight);
  std::uint64_t ns = scheduler->now();
  if (clock < 0) {  // a thread's CPU time, as server/server.cpp names it
    const Thread* thread = scheduler->with_id(~(clock >> 3));
    if (thread == nullptr) {
      errno = EINVAL;
      return -1;
    }
    ns = thread->cpu_ns;
  }
  time->tv_sec = static_cast<time_t>(ns / second_ns);
  time->tv_nsec = static_cast<long>(ns % second_ns);
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  if (self == nullptr) return real(nanosleep)(time, left);
  return sleep(scheduler->now() + in_ns(*time));
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (self == nullptr) return real(clock_nanosleep)(clock, flags, time, left);
  return sleep(in_ns(*time) + ((flags & TIMER_ABSTIME) != 0 ? 0 : scheduler->now()));
}

int usleep(useconds_t time_us) {
  if (self == nullptr) return real(usleep)(time_us);
  return sleep(scheduler->now() + std::uint64_t{time_us} * 1000);
}

int sched_yield() noexcept {
  if (self == nullptr) return real(sched_yield)();
  scheduler->yield();
  return 0;
}

// ---- system calls by their number

long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long arguments[6];
  for (long& argument : arguments)
    argument = va_arg(rest, long);
  va_end(rest);
  if (self != nullptr && number == SYS_futex) {
    return futex(reinterpret_cast<std::uint32_t*>(arguments[0]), static_cast<int>(arguments[1]),
                 static_cast<std::uint32_t>(arguments[2]),
                 reinterpret_cast<const timespec*>(arguments[3]));
  }
  if (self != nullptr && number == SYS_gettid)
    return first_thread_id + static_cast<int>(self->index);
  if (self != nullptr && number == SYS_membarrier) {
    if (arguments[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED) scheduler->flush_all_stores();
    scheduler->step(call_weight);
    return 0;
  }
  return real(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                       arguments[5]);
}
}
