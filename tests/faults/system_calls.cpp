#include "faults/system_calls.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ferry::test {
namespace {

std::atomic<std::uint64_t> error_number{0};
std::atomic<const char*> only{nullptr};
std::atomic<const char*> call{"none"};
std::atomic<int> error{0};
std::atomic<int> error_before{0};
std::atomic<std::int64_t> mapped{0};

// 0, or the error that this call fails with.
int failing(const char* name, std::initializer_list<int> errors) {
  if (!PointsHere::count) return 0;
  const char* wanted = only;
  if (wanted != nullptr && std::strcmp(wanted, name) != 0) return 0;
  if (!system_calls().strikes()) return 0;
  call = name;
  error_before = error.load();
  error = errors.begin()[error_number % errors.size()];
  return error;
}

// An exception that nothing catches says what brought it about.
const std::terminate_handler terminate_before = std::set_terminate([] {
  std::fprintf(stderr, "terminated; the fault struck %s\n", struck_call());
  if (terminate_before != nullptr) terminate_before();
  std::abort();
});

}  // namespace

NthPoint& system_calls() {
  static NthPoint point;
  return point;
}
void choose_system_error(std::uint64_t number) {
  error_number = number;
  error = error_before = 0;
}
void count_only(const char* name) {
  only = name;
}
const char* struck_call() {
  return call;
}
int struck_error() {
  return error;
}
bool struck_with(int wanted) {
  return wanted == error || wanted == error_before;
}
std::int64_t mapped_bytes() {
  return mapped;
}

}  // namespace ferry::test

using ferry::test::failing;
using ferry::test::mapped;

// A function that fails with errno and -1, and otherwise calls the real one.
#define FERRY_FAILING(type, name, parameters, arguments, ...)     \
  type __real_##name parameters;                                  \
  type __wrap_##name parameters;                                  \
  type __wrap_##name parameters {                                 \
    if (const int error = failing(#name, {__VA_ARGS__}); error) { \
      errno = error;                                              \
      return -1;                                                  \
    }                                                             \
    return __real_##name arguments;                               \
  }
// The same with its error as a negative result.
#define FERRY_FAILING_URING(name, parameters, arguments, ...)                  \
  int __real_##name parameters;                                                \
  int __wrap_##name parameters;                                                \
  int __wrap_##name parameters {                                               \
    if (const int error = failing(#name, {__VA_ARGS__}); error) return -error; \
    return __real_##name arguments;                                            \
  }

extern "C" {

FERRY_FAILING(int, stat, (const char* path, struct stat* to), (path, to), EIO, ENOMEM)
FERRY_FAILING(int, lstat, (const char* path, struct stat* to), (path, to), EIO, ENOMEM)
FERRY_FAILING(int, fstat, (int file, struct stat* to), (file, to), EIO, ENOMEM)
FERRY_FAILING(int, statx,
              (int folder, const char* path, int flags, unsigned mask, struct statx* to),
              (folder, path, flags, mask, to), EIO, ENOSYS)
FERRY_FAILING(int, statfs, (const char* path, struct statfs* to), (path, to), EIO, ENOSYS)
FERRY_FAILING(int, fstatfs, (int file, struct statfs* to), (file, to), EIO, ENOSYS)
FERRY_FAILING(int, memfd_create, (const char* name, unsigned flags), (name, flags), EMFILE, ENOMEM)
FERRY_FAILING(int, eventfd, (unsigned value, int flags), (value, flags), EMFILE, ENOMEM)
FERRY_FAILING(int, ftruncate, (int file, off_t bytes), (file, bytes), ENOSPC, EIO)
FERRY_FAILING(int, madvise, (void* begin, std::size_t bytes, int advice), (begin, bytes, advice),
              EINVAL, ENOMEM)
FERRY_FAILING(int, sched_getaffinity, (pid_t process, std::size_t bytes, cpu_set_t* to),
              (process, bytes, to), EPERM, ENOSYS)
FERRY_FAILING(ssize_t, pread, (int file, void* to, std::size_t bytes, off_t at),
              (file, to, bytes, at), EIO, ENOMEM)
FERRY_FAILING(ssize_t, pwrite, (int file, const void* from, std::size_t bytes, off_t at),
              (file, from, bytes, at), EIO, ENOSPC)
FERRY_FAILING(ssize_t, preadv, (int file, const iovec* to, int count, off_t at),
              (file, to, count, at), EIO, ENOMEM)
FERRY_FAILING(ssize_t, pwritev, (int file, const iovec* from, int count, off_t at),
              (file, from, count, at), EIO, ENOSPC)
FERRY_FAILING(ssize_t, preadv2, (int file, const iovec* to, int count, off_t at, int flags),
              (file, to, count, at, flags), EIO, EAGAIN, EOPNOTSUPP)
FERRY_FAILING(ssize_t, writev, (int file, const iovec* from, int count), (file, from, count), EIO,
              ENOSPC)
FERRY_FAILING(ssize_t, read, (int file, void* to, std::size_t bytes), (file, to, bytes), EIO,
              ENOMEM)
FERRY_FAILING(int, fsync, (int file), (file), EIO, ENOSPC)
FERRY_FAILING(int, fdatasync, (int file), (file), EIO, ENOSPC)
FERRY_FAILING(int, unlink, (const char* path), (path), EIO, EACCES)
FERRY_FAILING(int, rename, (const char* from, const char* to), (from, to), EIO, EACCES)
FERRY_FAILING(int, mkdir, (const char* path, mode_t mode), (path, mode), EIO, ENOSPC)
FERRY_FAILING(int, rmdir, (const char* path), (path), EIO, EBUSY)

FERRY_FAILING(int, socket, (int family, int type, int protocol), (family, type, protocol), EMFILE,
              ENOMEM)
FERRY_FAILING(int, bind, (int socket, const sockaddr* to, socklen_t bytes), (socket, to, bytes),
              EADDRINUSE, ENOMEM)
FERRY_FAILING(int, listen, (int socket, int waiting), (socket, waiting), EADDRINUSE)
FERRY_FAILING(int, accept4, (int socket, sockaddr* from, socklen_t* bytes, int flags),
              (socket, from, bytes, flags), EMFILE, ENFILE, ENOMEM, ECONNABORTED)
FERRY_FAILING(int, setsockopt,
              (int socket, int level, int name, const void* value, socklen_t bytes),
              (socket, level, name, value, bytes), ENOMEM)
FERRY_FAILING(int, getsockopt, (int socket, int level, int name, void* value, socklen_t* bytes),
              (socket, level, name, value, bytes), ENOMEM)
FERRY_FAILING(ssize_t, recvmsg, (int socket, msghdr* header, int flags), (socket, header, flags),
              ENOMEM, ECONNRESET)
FERRY_FAILING(int, poll, (pollfd * list, nfds_t count, int timeout_ms), (list, count, timeout_ms),
              EINTR, ENOMEM)
FERRY_FAILING(int, inotify_init1, (int flags), (flags), EMFILE, ENOMEM)
FERRY_FAILING(int, inotify_add_watch, (int queue, const char* path, std::uint32_t events),
              (queue, path, events), ENOSPC, ENOMEM)

FERRY_FAILING_URING(io_uring_queue_init, (unsigned entries, io_uring* ring, unsigned flags),
                    (entries, ring, flags), ENOMEM, EMFILE, EPERM)
FERRY_FAILING_URING(io_uring_queue_init_params,
                    (unsigned entries, io_uring* ring, io_uring_params* params),
                    (entries, ring, params), ENOMEM, EMFILE, EINVAL)
FERRY_FAILING_URING(io_uring_register_files_sparse, (io_uring * ring, unsigned count),
                    (ring, count), ENOMEM, EMFILE)
FERRY_FAILING_URING(io_uring_register_buffers,
                    (io_uring * ring, const iovec* buffers, unsigned count), (ring, buffers, count),
                    ENOMEM, EFAULT)
FERRY_FAILING_URING(io_uring_register_files_update,
                    (io_uring * ring, unsigned offset, const int* files, unsigned count),
                    (ring, offset, files, count), EBADF, ENOMEM)
FERRY_FAILING_URING(io_uring_register_ring_fd, (io_uring * ring), (ring), EBUSY, ENOMEM)

// ferry::send_message(), which makes its system call past the C library.
int __real__ZN5ferry12send_messageEiPKvmi(int socket, const void* message, std::size_t bytes,
                                          int descriptor);
int __wrap__ZN5ferry12send_messageEiPKvmi(int socket, const void* message, std::size_t bytes,
                                          int descriptor);
int __wrap__ZN5ferry12send_messageEiPKvmi(int socket, const void* message, std::size_t bytes,
                                          int descriptor) {
  const int error = failing("sendmsg", {ENOBUFS, EPIPE, ECONNRESET});
  if (error != 0) return error;
  return __real__ZN5ferry12send_messageEiPKvmi(socket, message, bytes, descriptor);
}

// It takes the descriptor in any case.
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file) {
  const int error = failing("close", {EIO, ENOSPC, EINTR});
  const int result = __real_close(file);
  if (error == 0) return result;
  errno = error;
  return -1;
}

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  if (const int error = failing("open", {EMFILE, ENFILE, ENOMEM}); error != 0) {
    errno = error;
    return -1;
  }
  return __real_open(path, flags, mode);
}

int __real_fcntl(int file, int command, ...);
int __wrap_fcntl(int file, int command, ...);
int __wrap_fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);  // a word, whatever it means
  va_end(more);
  // Neither the end of a lease nor a look at it has an error.
  const bool always_works =
      command == F_GETLEASE ||
      (command == F_SETLEASE && argument == reinterpret_cast<void*>(long{F_UNLCK}));
  const int error = always_works ? 0 : failing("fcntl", {EPERM, EINVAL});
  if (error != 0) {
    errno = error;
    return -1;
  }
  return __real_fcntl(file, command, argument);
}

// Only these: others are futexes and barriers.
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  va_list more;
  va_start(more, number);
  long words[6];
  for (long& word : words)
    word = va_arg(more, long);
  va_end(more);
  if (number == SYS_openat2) {
    if (const int error = failing("openat2", {EMFILE, EAGAIN, ENOSYS}); error != 0) {
      errno = error;
      return -1;
    }
  }
  if (number == SYS_pidfd_open) {
    if (const int error = failing("pidfd_open", {EMFILE, ENOMEM, ESRCH}); error != 0) {
      errno = error;
      return -1;
    }
  }
  return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

void* __real_mmap(void* where, std::size_t bytes, int rights, int flags, int file, off_t at);
void* __wrap_mmap(void* where, std::size_t bytes, int rights, int flags, int file, off_t at);
void* __wrap_mmap(void* where, std::size_t bytes, int rights, int flags, int file, off_t at) {
  if (const int error = failing("mmap", {ENOMEM}); error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  void* memory = __real_mmap(where, bytes, rights, flags, file, at);
  if (memory != MAP_FAILED) mapped += static_cast<std::int64_t>(bytes);
  return memory;
}
int __real_munmap(void* memory, std::size_t bytes);
int __wrap_munmap(void* memory, std::size_t bytes);
int __wrap_munmap(void* memory, std::size_t bytes) {
  mapped -= static_cast<std::int64_t>(bytes);
  return __real_munmap(memory, bytes);
}

// The C++ library calls it, so that this one has to have its name.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (const int error = failing("pthread_create", {EAGAIN}); error != 0) return error;
  return real(thread, attributes, work, argument);
}

}  // extern "C"
