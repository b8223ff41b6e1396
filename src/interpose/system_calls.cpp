// Bare system calls: syscall(2).
#include <array>
#include <cstdarg>
#include <cstdint>
#include <optional>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "interpose/descriptor_calls.hpp"
#include "interpose/standing_in.hpp"

using ferry::iobuf::Files;
using ferry::iobuf::LockedOverFork;
using ferry::iobuf::next;
using ferry::run::before_control;
using ferry::run::CachedReads;
using ferry::run::DescriptorChange;

namespace {

using Words = std::array<long, 6>;

// A system call by its number that does something with positions: those that this process keeps are
// given back first.
void give_back_before(long number, const Words& words) {
  CachedReads& reads = CachedReads::instance();
  switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_preadv2:
    case SYS_lseek:
    case SYS_dup:
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
    case SYS_ioctl:
      return reads.give_back_position(static_cast<int>(words[0]));
    case SYS_fcntl:
      return before_control(static_cast<int>(words[0]), static_cast<int>(words[1]), words[2]);
    case SYS_sendfile:
      return reads.give_back_position(static_cast<int>(words[1]));
    case SYS_splice:
    case SYS_copy_file_range:
      reads.give_back_position(static_cast<int>(words[0]));
      return reads.give_back_position(static_cast<int>(words[2]));
    case SYS_clone:
      return reads.before_child(static_cast<int>(words[0]));
    case SYS_clone3:  // the arguments begin with the flags
      return reads.before_child(
          static_cast<int>(*reinterpret_cast<const std::uint64_t*>(words[0])));
#ifdef SYS_fork
    case SYS_fork:
    case SYS_vfork:
      return reads.before_child(0);
#endif
    case SYS_pidfd_getfd:
    case SYS_execve:
    case SYS_execveat:
    case SYS_sendmsg:
    case SYS_sendmmsg:
      return reads.give_back_positions();
    case SYS_io_uring_setup:
      return reads.leave_positions();
    default:
      return;
  }
}

bool makes_process(long number, const Words& words) {
  switch (number) {
    case SYS_clone:
      return (words[0] & CLONE_VM) == 0;
    case SYS_clone3:  // the arguments begin with the flags
      return (*reinterpret_cast<const std::uint64_t*>(words[0]) & CLONE_VM) == 0;
#ifdef SYS_fork
    case SYS_fork:
      return true;
#endif
    default:
      return false;
  }
}

// Buffers are below the C library's functions: a bare call that moves data, or whose outcome
// depends on what was written, finds none.
void release_before(long number, const Words& words) {
  Files& files = Files::instance();
  constexpr const char* why = "a bare system call";
  const auto release = [&](long descriptor) { files.release(static_cast<int>(descriptor), why); };
  switch (number) {
    case SYS_io_uring_setup:
      return files.stop("io_uring");
    case SYS_io_setup:
    case SYS_io_submit:
      return files.stop("libaio");
    case SYS_mmap:
      if ((words[3] & MAP_ANONYMOUS) == 0) files.mapped(static_cast<int>(words[4]));
      return;
#ifdef SYS_stat
    case SYS_stat:
    case SYS_lstat:
#endif
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_fstat:
    case SYS_sync:
    case SYS_syncfs:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_utimensat:
      return files.flush_all();
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_lseek:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_fcntl:
    case SYS_flock:
    case SYS_dup:
    case SYS_close:
      return release(words[0]);
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:  // closes the second
    case SYS_sendfile:
      release(words[1]);
      return release(words[0]);
    case SYS_splice:
    case SYS_copy_file_range:
      release(words[2]);
      return release(words[0]);
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
#endif
    case SYS_openat:
    case SYS_openat2:
    case SYS_open_by_handle_at:
    case SYS_truncate:
    case SYS_ioctl:
    case SYS_close_range:
    case SYS_pidfd_getfd:
    case SYS_execve:
    case SYS_execveat:
    case SYS_exit_group:
    case SYS_sendmsg:
    case SYS_sendmmsg:
      return files.release_all(why);
    default:
      return;
  }
}
// The descriptor that a bare system call made, or -1.
int new_descriptor(long number, long command, long result) {
  switch (number) {
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
    case SYS_dup2:
#endif
    case SYS_openat:
    case SYS_openat2:
    case SYS_open_by_handle_at:
    case SYS_dup:
    case SYS_dup3:
    case SYS_pidfd_getfd:
      return static_cast<int>(result);
    case SYS_fcntl:
      return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? static_cast<int>(result) : -1;
    default:
      return -1;
  }
}

}  // namespace

// Always with six arguments, as in the C library, however many the call takes.
FERRY_STANDS_IN(long, syscall, long number, ...) {
  std::va_list rest;
  va_start(rest, number);
  Words words{};
  for (long& word : words)
    word = va_arg(rest, long);
  va_end(rest);
  release_before(number, words);
  give_back_before(number, words);
  std::optional<DescriptorChange> change;
  switch (number) {
    case SYS_close:
      change.emplace(static_cast<int>(words[0]));
      break;
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
      change.emplace(static_cast<int>(words[1]));
      break;
    case SYS_close_range:
      if ((words[2] & CLOSE_RANGE_UNSHARE) != 0) CachedReads::instance().stop();
      change.emplace(static_cast<unsigned>(words[0]), static_cast<unsigned>(words[1]));
      break;
    case SYS_unshare:
      if ((words[0] & CLONE_FILES) != 0) CachedReads::instance().stop();
      break;
    case SYS_prctl:
      if (words[0] == PR_SET_SECCOMP) CachedReads::instance().stop();
      break;
    case SYS_seccomp:
      CachedReads::instance().stop();
      break;
    default:
      break;
  }
  std::optional<LockedOverFork> locked;
  if (makes_process(number, words)) locked.emplace();
  const long result = next<long(long, ...), "syscall">()(number, words[0], words[1], words[2],
                                                         words[3], words[4], words[5]);
  locked.reset();
  Files::instance().copied(new_descriptor(number, words[1], result));
  if (number == SYS_recvmsg && result >= 0)
    ferry::run::received(*reinterpret_cast<const msghdr*>(words[1]));
  return result;
}
