// The n-th system call that the library makes on its own account fails, in each process, or its
// n-th allocation, or all from that one on:
//   FERRY_FAIL_CALL=N FERRY_FAIL_REPORT=FILE
//   FERRY_FAIL_ALLOCATION=N [FERRY_FAIL_ON=1] FERRY_FAIL_REPORT=FILE
// FILE gets a line with the call's number where one did, 0 for an allocation. Calls that it passes
// on for the program are not counted. Safe in signal handlers.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry::test {
namespace {

constexpr long key_create = -1;  // a function, no system call

// What the kernel may answer; 0: such a call does not fail.
long error_of(long number) {
  switch (number) {
    case SYS_getpid:
    case SYS_gettid:
    case SYS_exit_group:
    case SYS_rt_sigprocmask:  // of these arguments
    case SYS_nanosleep:
    case SYS_lseek:  // in a regular file, to where it may be
    case SYS_futex:
      return 0;
    case SYS_openat:
    case SYS_socket:
      return EMFILE;
    case SYS_connect:
      return ECONNREFUSED;
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_munmap:
    case SYS_munlock:
    case SYS_sendmsg:
    case SYS_recvmsg:
    case SYS_setsockopt:
    case SYS_readlinkat:
      return ENOMEM;
    case key_create:
      return EAGAIN;
    case SYS_madvise:
      return EINVAL;
    case SYS_ftruncate:
    case SYS_pwrite64:
      return ENOSPC;
    case SYS_fcntl:
    case SYS_getsockopt:
    case SYS_getrlimit:
      return EPERM;
    case SYS_faccessat:
      return EACCES;
    default:
      return EIO;
  }
}

long number_in(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : 0;
}

void report(long number) {
  const char* path = std::getenv("FERRY_FAIL_REPORT");
  if (path == nullptr) return;
  const long file =
      real_kernel_call(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  char line[32];
  const int bytes = std::snprintf(line, sizeof line, "%ld\n", number);
  real_kernel_call(SYS_write, file, line, bytes);
  real_kernel_call(SYS_close, file);
}

}  // namespace

long failing_call(long number) {
  static std::atomic<long> seen{0};
  static const long wanted = number_in("FERRY_FAIL_CALL");
  const long error = error_of(number);
  if (error == 0 || wanted == 0 || seen.fetch_add(1) + 1 != wanted) return 0;
  report(number);
  return -error;
}

// In an exception's allocation, for which the C++ library has a reserve.
thread_local bool has_reserve = false;

bool failing_allocation() {
  static std::atomic<long> seen{0};
  static const long wanted = number_in("FERRY_FAIL_ALLOCATION");
  static const bool goes_on = number_in("FERRY_FAIL_ON") != 0;
  if (wanted == 0 || has_reserve) return false;
  const long number = seen.fetch_add(1) + 1;
  if (number < wanted || (number > wanted && !goes_on)) return false;
  if (number == wanted) report(0);
  errno = ENOMEM;
  return true;
}

}  // namespace ferry::test

using ferry::test::failing_allocation;
using ferry::test::failing_call;

#define FERRY_FAILING(type, failure, name, number, parameters, arguments) \
  extern "C" type __real_##name parameters;                               \
  extern "C" type __wrap_##name parameters;                               \
  extern "C" type __wrap_##name parameters {                              \
    if (const long error = failing_call(number); error != 0) {            \
      errno = static_cast<int>(-error);                                   \
      return failure;                                                     \
    }                                                                     \
    return __real_##name arguments;                                       \
  }

FERRY_FAILING(int, -1, socket, SYS_socket, (int family, int type, int protocol),
              (family, type, protocol))
FERRY_FAILING(int, -1, connect, SYS_connect, (int socket, const sockaddr* to, socklen_t bytes),
              (socket, to, bytes))
FERRY_FAILING(int, -1, setsockopt, SYS_setsockopt,
              (int socket, int level, int name, const void* value, socklen_t bytes),
              (socket, level, name, value, bytes))
FERRY_FAILING(int, -1, getsockopt, SYS_getsockopt,
              (int socket, int level, int name, void* value, socklen_t* bytes),
              (socket, level, name, value, bytes))
FERRY_FAILING(ssize_t, -1, recvmsg, SYS_recvmsg, (int socket, msghdr* header, int flags),
              (socket, header, flags))
FERRY_FAILING(void*, MAP_FAILED, mmap, SYS_mmap,
              (void* where, std::size_t bytes, int rights, int flags, int file, off_t at),
              (where, bytes, rights, flags, file, at))
FERRY_FAILING(int, -1, munmap, SYS_munmap, (void* memory, std::size_t bytes), (memory, bytes))
FERRY_FAILING(int, -1, mprotect, SYS_mprotect, (void* memory, std::size_t bytes, int rights),
              (memory, bytes, rights))
FERRY_FAILING(int, -1, munlock, SYS_munlock, (const void* memory, std::size_t bytes),
              (memory, bytes))
FERRY_FAILING(int, -1, madvise, SYS_madvise, (void* memory, std::size_t bytes, int advice),
              (memory, bytes, advice))
FERRY_FAILING(int, -1, getrlimit, SYS_getrlimit, (int what, rlimit* limit), (what, limit))

// Those of the C++ library, which is linked statically, too.
#define FERRY_FAILING_ALLOCATION(type, name, parameters, arguments)  \
  extern "C" type __real_##name parameters;                          \
  extern "C" type __wrap_##name parameters;                          \
  extern "C" type __wrap_##name parameters {                         \
    return failing_allocation() ? nullptr : __real_##name arguments; \
  }
FERRY_FAILING_ALLOCATION(void*, malloc, (std::size_t bytes), (bytes))
FERRY_FAILING_ALLOCATION(void*, realloc, (void* memory, std::size_t bytes), (memory, bytes))
FERRY_FAILING_ALLOCATION(void*, aligned_alloc, (std::size_t alignment, std::size_t bytes),
                         (alignment, bytes))
FERRY_FAILING_ALLOCATION(FILE*, fopencookie,
                         (void* cookie, const char* mode, cookie_io_functions_t functions),
                         (cookie, mode, functions))

extern "C" void* __real___cxa_allocate_exception(std::size_t bytes) noexcept;
extern "C" void* __wrap___cxa_allocate_exception(std::size_t bytes) noexcept;
extern "C" void* __wrap___cxa_allocate_exception(std::size_t bytes) noexcept {
  ferry::test::has_reserve = true;
  void* memory = __real___cxa_allocate_exception(bytes);
  ferry::test::has_reserve = false;
  return memory;
}

extern "C" int __real_pthread_key_create(pthread_key_t* key, void (*end)(void*));
extern "C" int __wrap_pthread_key_create(pthread_key_t* key, void (*end)(void*));
extern "C" int __wrap_pthread_key_create(pthread_key_t* key, void (*end)(void*)) {
  const long error = failing_call(ferry::test::key_create);
  return error != 0 ? static_cast<int>(-error) : __real_pthread_key_create(key, end);
}

extern "C" long __real_syscall(long number, ...);
extern "C" long __wrap_syscall(long number, ...);
extern "C" long __wrap_syscall(long number, ...) {
  std::va_list more;
  va_start(more, number);
  long words[6];
  for (long& word : words)
    word = va_arg(more, long);
  va_end(more);
  if (const long error = failing_call(number); error != 0) {
    if (number == SYS_close) __real_syscall(number, words[0]);
    errno = static_cast<int>(-error);
    return -1;
  }
  return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
