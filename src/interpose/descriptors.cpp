// Calls with a descriptor: buffers small reads and writes, lets ferryd serve reads, and ends both
// where needed.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <optional>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/standing_in.hpp"

using ferry::iobuf::either;
using ferry::iobuf::Files;
using ferry::iobuf::next;
using ferry::iobuf::TrackedFile;
using ferry::run::CachedReads;
using ferry::run::DescriptorChange;

namespace {

void copied(int copy) {
  Files::instance().copied(copy);
  CachedReads::instance().copied(copy);
}

using Open = int(const char*, int, ...);
using OpenAt = int(int, const char*, int, ...);

// Declares `mode`: the argument after `flags`, if they need one.
#define FERRY_MODE_AFTER_FLAGS                                 \
  mode_t mode = 0;                                             \
  if ((flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) != 0) { \
    std::va_list rest;                                         \
    va_start(rest, flags);                                     \
    mode = va_arg(rest, mode_t);                               \
    va_end(rest);                                              \
  }

int tracked(int descriptor, const char* path, int flags) {
  if (descriptor < 0) return descriptor;
  Files::instance().opened(descriptor, path, flags);
  // One or the other.
  if (Files::may_track(descriptor)) {
    CachedReads::instance().leave(descriptor);
  } else {
    CachedReads::instance().opened(descriptor, flags);
  }
  return descriptor;
}

void release(int descriptor, const char* why) {
  Files::instance().release(descriptor, why);
}

// Before the kernel's position is used, or shared with another descriptor.
void release_position(int descriptor, const char* why) {
  release(descriptor, why);
  CachedReads::instance().give_back_position(descriptor);
}

// Vectored transfers, one vector after another: `transfer(data, bytes, done)`.
template <class Transfer>
ssize_t for_vectors(const iovec* vectors, int count, Transfer&& transfer) {
  if (count < 0 || count > 1024) {
    errno = EINVAL;
    return -1;
  }
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    if (vectors[i].iov_len == 0) continue;
    const ssize_t moved = transfer(vectors[i].iov_base, vectors[i].iov_len, done);
    if (moved < 0) return done > 0 ? done : -1;
    done += moved;
    if (static_cast<std::size_t>(moved) < vectors[i].iov_len) break;
  }
  return done;
}

// At the position. Out of line, because few descriptors are served.
template <class Here>
__attribute__((noinline)) ssize_t read_slowly(int descriptor, void* data, size_t bytes, Here here) {
  const iovec one{data, bytes};
  return CachedReads::instance().read(descriptor, &one, 1, here, [=](off_t offset) {
    return next<ssize_t(int, void*, size_t, off_t), "pread64">()(descriptor, data, bytes, offset);
  });
}
template <class Here>
__attribute__((noinline)) ssize_t readv_slowly(int descriptor, const iovec* vectors, int count,
                                               Here here) {
  return CachedReads::instance().read(descriptor, vectors, count, here, [=](off_t offset) {
    return next<ssize_t(int, const iovec*, int, off_t), "preadv64">()(descriptor, vectors, count,
                                                                      offset);
  });
}
template <class Here>
__attribute__((noinline)) off_t seek_slowly(int descriptor, off_t offset, int whence, Here here) {
  return CachedReads::instance().seek(descriptor, offset, whence, here);
}
// `slowly` if ferryd may serve the file.
template <class Here, class Slowly>
__attribute__((always_inline)) inline auto at_position(int descriptor, Here here, Slowly slowly) {
  if (CachedReads::instance().may_serve(descriptor)) [[unlikely]]
    return slowly(here);
  return here();
}

ssize_t not_served(int, const iovec*, int, off_t) {
  return -1;
}

int flush_here(TrackedFile& file) {
  const int error = file.flush();
  if (error != 0) errno = error;
  return error;
}

}  // namespace

// ---- opening and closing -----------------------------------------------------------------------

FERRY_STANDS_IN(int, open, const char* path, int flags, ...) {
  FERRY_MODE_AFTER_FLAGS
  return tracked(next<Open, "open">()(path, flags, mode), path, flags);
}
FERRY_STANDS_IN(int, open64, const char* path, int flags, ...) {
  FERRY_MODE_AFTER_FLAGS
  return tracked(next<Open, "open64">()(path, flags, mode), path, flags);
}
FERRY_STANDS_IN(int, __open_2, const char* path, int flags) {
  return tracked(next<Open, "__open_2">()(path, flags), path, flags);
}
FERRY_STANDS_IN(int, __open64_2, const char* path, int flags) {
  return tracked(next<Open, "__open64_2">()(path, flags), path, flags);
}
FERRY_STANDS_IN(int, openat, int folder, const char* path, int flags, ...) {
  FERRY_MODE_AFTER_FLAGS
  return tracked(next<OpenAt, "openat">()(folder, path, flags, mode), path, flags);
}
FERRY_STANDS_IN(int, openat64, int folder, const char* path, int flags, ...) {
  FERRY_MODE_AFTER_FLAGS
  return tracked(next<OpenAt, "openat64">()(folder, path, flags, mode), path, flags);
}
FERRY_STANDS_IN(int, creat, const char* path, mode_t mode) {
  return tracked(next<int(const char*, mode_t), "creat">()(path, mode), path, O_WRONLY);
}
FERRY_STANDS_IN(int, creat64, const char* path, mode_t mode) {
  return tracked(next<int(const char*, mode_t), "creat64">()(path, mode), path, O_WRONLY);
}

#define FERRY_CLOSE(name)                                    \
  FERRY_STANDS_IN(int, name, int descriptor) {               \
    const DescriptorChange change(descriptor);               \
    const int error = Files::instance().closing(descriptor); \
    const int result = next<int(int), #name>()(descriptor);  \
    if (error == 0) return result;                           \
    errno = error;                                           \
    return -1;                                               \
  }
FERRY_CLOSE(close)
FERRY_CLOSE(__close)
FERRY_STANDS_IN(int, close_range, unsigned first, unsigned last, int flags) {
  Files::instance().release_all("close_range");
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_UNSHARE) != 0) CachedReads::instance().stop();
  const DescriptorChange change(first, last);
  return next<int(unsigned, unsigned, int), "close_range">()(first, last, flags);
}
FERRY_STANDS_IN(void, closefrom, int first) {
  Files::instance().release_all("closefrom");
  const DescriptorChange change(static_cast<unsigned>(std::max(first, 0)), ~0U);
  next<void(int), "closefrom">()(first);
}

// ---- moving data -------------------------------------------------------------------------------

#define FERRY_READ(name)                                                                           \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, void* data, size_t bytes) {                       \
    return either(                                                                                 \
        descriptor, [=](TrackedFile& file) { return file.read(data, bytes); },                     \
        [=] {                                                                                      \
          return at_position(                                                                      \
              descriptor,                                                                          \
              [=] { return next<ssize_t(int, void*, size_t), #name>()(descriptor, data, bytes); }, \
              [=](auto here) { return read_slowly(descriptor, data, bytes, here); });              \
        });                                                                                        \
  }
FERRY_READ(read)
FERRY_READ(__read)
FERRY_STANDS_IN(ssize_t, __read_chk, int descriptor, void* data, size_t bytes, size_t room) {
  return either(
      descriptor, [=](TrackedFile& file) { return file.read(data, std::min(bytes, room)); },
      [=] {
        return at_position(
            descriptor,
            [=] {
              return next<ssize_t(int, void*, size_t, size_t), "__read_chk">()(descriptor, data,
                                                                               bytes, room);
            },
            [=](auto here) {
              // What does not fit ends the program.
              return bytes <= room ? read_slowly(descriptor, data, bytes, here) : here();
            });
      });
}
FERRY_STANDS_IN(ssize_t, write, int descriptor, const void* data, size_t bytes) {
  return either(
      descriptor, [=](TrackedFile& file) { return file.write(data, bytes); },
      [=] { return next<ssize_t(int, const void*, size_t), "write">()(descriptor, data, bytes); });
}

#define FERRY_PREAD(name)                                                                        \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, void* data, size_t bytes, off_t offset) {       \
    return either(                                                                               \
        descriptor, [=](TrackedFile& file) { return file.pread(data, bytes, offset); },          \
        [=] {                                                                                    \
          const ssize_t served = CachedReads::instance().pread(descriptor, data, bytes, offset); \
          if (served >= 0) [[unlikely]]                                                          \
            return served;                                                                       \
          return next<ssize_t(int, void*, size_t, off_t), #name>()(descriptor, data, bytes,      \
                                                                   offset);                      \
        });                                                                                      \
  }
FERRY_PREAD(pread)
FERRY_PREAD(pread64)
FERRY_PREAD(__pread64)

#define FERRY_PREAD_CHK(name)                                                                      \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, void* data, size_t bytes, off_t offset,           \
                  size_t room) {                                                                   \
    return either(                                                                                 \
        descriptor,                                                                                \
        [=](TrackedFile& file) { return file.pread(data, std::min(bytes, room), offset); },        \
        [=] {                                                                                      \
          const ssize_t served =                                                                   \
              bytes <= room ? CachedReads::instance().pread(descriptor, data, bytes, offset) : -1; \
          if (served >= 0) return served;                                                          \
          return next<ssize_t(int, void*, size_t, off_t, size_t), #name>()(descriptor, data,       \
                                                                           bytes, offset, room);   \
        });                                                                                        \
  }
FERRY_PREAD_CHK(__pread_chk)
FERRY_PREAD_CHK(__pread64_chk)

#define FERRY_PWRITE(name)                                                                        \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, const void* data, size_t bytes, off_t offset) {  \
    return either(                                                                                \
        descriptor, [=](TrackedFile& file) { return file.pwrite(data, bytes, offset); },          \
        [=] {                                                                                     \
          return next<ssize_t(int, const void*, size_t, off_t), #name>()(descriptor, data, bytes, \
                                                                         offset);                 \
        });                                                                                       \
  }
FERRY_PWRITE(pwrite)
FERRY_PWRITE(pwrite64)

FERRY_STANDS_IN(ssize_t, readv, int descriptor, const iovec* vectors, int count) {
  return either(
      descriptor,
      [=](TrackedFile& file) {
        return for_vectors(vectors, count, [&](void* data, std::size_t bytes, ssize_t) {
          return file.read(data, bytes);
        });
      },
      [=] {
        return at_position(
            descriptor,
            [=] {
              return next<ssize_t(int, const iovec*, int), "readv">()(descriptor, vectors, count);
            },
            [=](auto here) { return readv_slowly(descriptor, vectors, count, here); });
      });
}
FERRY_STANDS_IN(ssize_t, writev, int descriptor, const iovec* vectors, int count) {
  return either(
      descriptor,
      [=](TrackedFile& file) {
        return for_vectors(vectors, count, [&](void* data, std::size_t bytes, ssize_t) {
          return file.write(data, bytes);
        });
      },
      [=] {
        return next<ssize_t(int, const iovec*, int), "writev">()(descriptor, vectors, count);
      });
}

#define FERRY_VECTORS_AT(name, call, served_by)                                                    \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, const iovec* vectors, int count, off_t offset) {  \
    return either(                                                                                 \
        descriptor,                                                                                \
        [=](TrackedFile& file) {                                                                   \
          return for_vectors(vectors, count, [&](void* data, std::size_t bytes, ssize_t done) {    \
            return (file.*(call))(data, bytes, offset + done);                                     \
          });                                                                                      \
        },                                                                                         \
        [=] {                                                                                      \
          const ssize_t served = served_by(descriptor, vectors, count, offset);                    \
          if (served >= 0) return served;                                                          \
          return next<ssize_t(int, const iovec*, int, off_t), #name>()(descriptor, vectors, count, \
                                                                       offset);                    \
        });                                                                                        \
  }
FERRY_VECTORS_AT(preadv, &TrackedFile::pread, CachedReads::instance().preadv)
FERRY_VECTORS_AT(preadv64, &TrackedFile::pread, CachedReads::instance().preadv)
FERRY_VECTORS_AT(pwritev, &TrackedFile::pwrite, not_served)
FERRY_VECTORS_AT(pwritev64, &TrackedFile::pwrite, not_served)

// With flags: they are the kernel's to honour.
#define FERRY_VECTORS_WITH_FLAGS(name)                                                            \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, const iovec* vectors, int count, off_t offset,   \
                  int flags) {                                                                    \
    if (offset == -1) {                                                                           \
      release_position(descriptor, #name);                                                        \
    } else {                                                                                      \
      release(descriptor, #name);                                                                 \
    }                                                                                             \
    if (flags == 0) {                                                                             \
      const ssize_t served = CachedReads::instance().preadv(descriptor, vectors, count, offset);  \
      if (served >= 0) return served;                                                             \
    }                                                                                             \
    return next<ssize_t(int, const iovec*, int, off_t, int), #name>()(descriptor, vectors, count, \
                                                                      offset, flags);             \
  }
FERRY_VECTORS_WITH_FLAGS(preadv2)
FERRY_VECTORS_WITH_FLAGS(preadv64v2)

// ---- position, size, durability ----------------------------------------------------------------

#define FERRY_SEEK(name)                                                                         \
  FERRY_STANDS_IN(off_t, name, int descriptor, off_t offset, int whence) {                       \
    return either(                                                                               \
        descriptor, [=](TrackedFile& file) { return file.seek(offset, whence); },                \
        [=] {                                                                                    \
          return at_position(                                                                    \
              descriptor,                                                                        \
              [=] { return next<off_t(int, off_t, int), #name>()(descriptor, offset, whence); }, \
              [=](auto here) { return seek_slowly(descriptor, offset, whence, here); });         \
        });                                                                                      \
  }
FERRY_SEEK(lseek)
FERRY_SEEK(lseek64)
FERRY_SEEK(__lseek)
FERRY_SEEK(llseek)

#define FERRY_TRUNCATE(name)                                                     \
  FERRY_STANDS_IN(int, name, int descriptor, off_t size_bytes) {                 \
    return either(                                                               \
        descriptor, [=](TrackedFile& file) { return file.resize(size_bytes); },  \
        [=] { return next<int(int, off_t), #name>()(descriptor, size_bytes); }); \
  }
FERRY_TRUNCATE(ftruncate)
FERRY_TRUNCATE(ftruncate64)

// Calls that must see written data: flush first.
#define FERRY_FLUSHED(name, parameters, ...)                                               \
  FERRY_STANDS_IN(int, name, int descriptor __VA_OPT__(, ) __VA_ARGS__) {                  \
    const int error = either(                                                              \
        descriptor, [](TrackedFile& file) { return flush_here(file); }, [] { return 0; }); \
    if (error != 0) return -1;                                                             \
    return next<int(int __VA_OPT__(, ) __VA_ARGS__), #name>() parameters;                  \
  }
FERRY_FLUSHED(fsync, (descriptor))
FERRY_FLUSHED(fdatasync, (descriptor))
FERRY_FLUSHED(fstat, (descriptor, status), struct stat* status)
FERRY_FLUSHED(fstat64, (descriptor, status), struct stat64* status)

// Also correct for a file named by path.
#define FERRY_STAT(name)                                              \
  FERRY_STANDS_IN(int, name, const char* path, struct stat* status) { \
    auto* own = next<int(const char*, struct stat*), #name>();        \
    const int result = own(path, status);                             \
    if (result != 0 || !S_ISREG(status->st_mode)) return result;      \
    struct stat wanted {};                                            \
    wanted.st_dev = status->st_dev;                                   \
    wanted.st_ino = status->st_ino;                                   \
    if (!Files::instance().flush_file(wanted)) return result;         \
    return own(path, status);                                         \
  }
FERRY_STAT(stat)
FERRY_STAT(stat64)  // the same structure on 64-bit machines

#define FERRY_TRUNCATE_PATH(name)                                           \
  FERRY_STANDS_IN(int, name, const char* path, off_t size_bytes) {          \
    struct stat status {};                                                  \
    if (next<int(const char*, struct stat*), "stat">()(path, &status) == 0) \
      Files::instance().release_file(status, "truncated by name");          \
    return next<int(const char*, off_t), #name>()(path, size_bytes);        \
  }
FERRY_TRUNCATE_PATH(truncate)
FERRY_TRUNCATE_PATH(truncate64)

// ---- what ends buffering -----------------------------------------------------------------------

FERRY_STANDS_IN(int, dup, int descriptor) {
  release_position(descriptor, "dup");
  const int copy = next<int(int), "dup">()(descriptor);
  copied(copy);
  return copy;
}
#define FERRY_DUP_TO(name, parameters, ...)                            \
  FERRY_STANDS_IN(int, name, __VA_ARGS__) {                            \
    release_position(from, #name);                                     \
    if (from == to) return next<int(__VA_ARGS__), #name>() parameters; \
    Files::instance().closing(to);                                     \
    const DescriptorChange change(to);                                 \
    const int copy = next<int(__VA_ARGS__), #name>() parameters;       \
    Files::instance().copied(copy);                                    \
    return copy;                                                       \
  }
FERRY_DUP_TO(dup2, (from, to), int from, int to)
FERRY_DUP_TO(__dup2, (from, to), int from, int to)
FERRY_DUP_TO(dup3, (from, to, flags), int from, int to, int flags)

namespace {

// Programs lock files that several processes write, which must see each other's data.
void before_control(int descriptor, int command, long argument) {
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return release_position(descriptor, "fcntl F_DUPFD");
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
      return release_position(descriptor, "locked");  // perhaps from the position on
    case F_GETLK:
    case F_OFD_GETLK:
      return CachedReads::instance().give_back_position(descriptor);
    case F_SETFL:
      if ((argument & (O_APPEND | O_DIRECT)) != 0) release(descriptor, "fcntl F_SETFL");
      if ((argument & O_DIRECT) != 0) CachedReads::instance().leave(descriptor);
      return;
    default:
      return;
  }
}

}  // namespace

// Every argument of fcntl is one word.
#define FERRY_CONTROL(name)                                                              \
  FERRY_STANDS_IN(int, name, int descriptor, int command, ...) {                         \
    std::va_list rest;                                                                   \
    va_start(rest, command);                                                             \
    const long argument = va_arg(rest, long);                                            \
    va_end(rest);                                                                        \
    before_control(descriptor, command, argument);                                       \
    const int result = next<int(int, int, ...), #name>()(descriptor, command, argument); \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copied(result);                \
    return result;                                                                       \
  }
FERRY_CONTROL(fcntl)
FERRY_CONTROL(fcntl64)
FERRY_CONTROL(__fcntl)
FERRY_STANDS_IN(int, ioctl, int descriptor, unsigned long request, ...) {
  std::va_list rest;
  va_start(rest, request);
  const long argument = va_arg(rest, long);
  va_end(rest);
  // The bytes from the position on.
  if (request == FIONREAD) CachedReads::instance().give_back_position(descriptor);
  return next<int(int, unsigned long, ...), "ioctl">()(descriptor, request, argument);
}

FERRY_STANDS_IN(int, flock, int descriptor, int operation) {
  release(descriptor, "locked");
  return next<int(int, int), "flock">()(descriptor, operation);
}
#define FERRY_RELEASED(name, result, why, parameters, ...)     \
  FERRY_STANDS_IN(result, name, int descriptor, __VA_ARGS__) { \
    release_position(descriptor, why);                         \
    return next<result(int, __VA_ARGS__), #name>() parameters; \
  }
FERRY_RELEASED(lockf, int, "locked", (descriptor, command, bytes), int command, off_t bytes)
FERRY_RELEASED(lockf64, int, "locked", (descriptor, command, bytes), int command, off_t bytes)
FERRY_RELEASED(fallocate, int, "fallocate", (descriptor, mode, offset, bytes), int mode,
               off_t offset, off_t bytes)
FERRY_RELEASED(fallocate64, int, "fallocate", (descriptor, mode, offset, bytes), int mode,
               off_t offset, off_t bytes)
FERRY_RELEASED(posix_fallocate, int, "posix_fallocate", (descriptor, offset, bytes), off_t offset,
               off_t bytes)
FERRY_RELEASED(posix_fallocate64, int, "posix_fallocate", (descriptor, offset, bytes), off_t offset,
               off_t bytes)

#define FERRY_MMAP(name)                                                                         \
  FERRY_STANDS_IN(void*, name, void* address, size_t bytes, int protection, int flags,           \
                  int descriptor, off_t offset) {                                                \
    if (descriptor >= 0) Files::instance().mapped(descriptor);                                   \
    return next<void*(void*, size_t, int, int, int, off_t), #name>()(address, bytes, protection, \
                                                                     flags, descriptor, offset); \
  }
FERRY_MMAP(mmap)
FERRY_MMAP(mmap64)

// At the position, unless they are told another. `source`: what is read.
#define FERRY_BETWEEN(name, result, why, source, parameters, ...)       \
  FERRY_STANDS_IN(result, name, __VA_ARGS__) {                          \
    release_position(one, why);                                         \
    release_position(other, why);                                       \
    const result moved = next<result(__VA_ARGS__), #name>() parameters; \
    if (moved >= 0) CachedReads::instance().count_copy(source);         \
    return moved;                                                       \
  }
FERRY_BETWEEN(sendfile, ssize_t, "sendfile", other, (one, other, offset, bytes), int one, int other,
              off_t* offset, size_t bytes)
FERRY_BETWEEN(sendfile64, ssize_t, "sendfile", other, (one, other, offset, bytes), int one,
              int other, off_t* offset, size_t bytes)
FERRY_BETWEEN(copy_file_range, ssize_t, "copy_file_range", one,
              (one, from, other, to, bytes, flags), int one, off_t* from, int other, off_t* to,
              size_t bytes, unsigned flags)
FERRY_BETWEEN(splice, ssize_t, "splice", one, (one, from, other, to, bytes, flags), int one,
              off_t* from, int other, off_t* to, size_t bytes, unsigned flags)

// ---- what ferryd's files must hear of ----------------------------------------------------------

// A thread with descriptors of its own would take them for those of the others. A process in a
// sandbox is killed for the system calls that ask ferryd.
FERRY_STANDS_IN(int, unshare, int flags) {
  if ((flags & CLONE_FILES) != 0) CachedReads::instance().stop();
  return next<int(int), "unshare">()(flags);
}
FERRY_STANDS_IN(int, prctl, int option, ...) {
  std::va_list rest;
  va_start(rest, option);
  std::array<unsigned long, 4> words{};
  for (unsigned long& word : words)
    word = va_arg(rest, unsigned long);
  va_end(rest);
  if (option == PR_SET_SECCOMP) CachedReads::instance().stop();
  return next<int(int, ...), "prctl">()(option, words[0], words[1], words[2], words[3]);
}

namespace {

// Descriptors may travel with a message.
void give_back_sent(const msghdr& message) {
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* control = CMSG_FIRSTHDR(header); control != nullptr;
       control = CMSG_NXTHDR(header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
      CachedReads::instance().give_back_positions();
  }
}

}  // namespace

FERRY_STANDS_IN(ssize_t, sendmsg, int socket, const msghdr* message, int flags) {
  if (message != nullptr) give_back_sent(*message);
  return next<ssize_t(int, const msghdr*, int), "sendmsg">()(socket, message, flags);
}
FERRY_STANDS_IN(int, sendmmsg, int socket, mmsghdr* messages, unsigned count, int flags) {
  for (unsigned i = 0; messages != nullptr && i < count; ++i)
    give_back_sent(messages[i].msg_hdr);
  return next<int(int, mmsghdr*, unsigned, int), "sendmmsg">()(socket, messages, count, flags);
}

// What a program asks of io_uring is not seen here. It may read at the kernel's position. The
// library may have come with a plug-in, outside the scope of RTLD_NEXT, or not be there at all.
#define FERRY_URING(name, parameters, ...)                                    \
  FERRY_STANDS_IN(int, name, unsigned entries, __VA_ARGS__) {                 \
    CachedReads::instance().leave_positions();                                \
    auto* original = next<int(unsigned, __VA_ARGS__), #name>();               \
    if (original == nullptr) {                                                \
      void* library = dlopen("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD);       \
      if (library == nullptr) return -ENOSYS;                                 \
      original = reinterpret_cast<decltype(original)>(dlsym(library, #name)); \
      if (original == nullptr) return -ENOSYS;                                \
    }                                                                         \
    return original parameters;                                               \
  }
FERRY_URING(io_uring_queue_init, (entries, ring, flags), void* ring, unsigned flags)
FERRY_URING(io_uring_queue_init_params, (entries, ring, settings), void* ring, void* settings)
FERRY_URING(io_uring_queue_init_mem, (entries, ring, settings, memory, bytes), void* ring,
            void* settings, void* memory, size_t bytes)
FERRY_URING(io_uring_setup, (entries, settings), void* settings)
FERRY_STANDS_IN(int, pidfd_getfd, int process, int descriptor, unsigned flags) {
  CachedReads::instance().give_back_positions();  // it may be this process
  return next<int(int, int, unsigned), "pidfd_getfd">()(process, descriptor, flags);
}

// ---- bare system calls -------------------------------------------------------------------------

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

}  // namespace

// Always with six arguments, as in the C library, however many the call takes.
FERRY_STANDS_IN(long, syscall, long number, ...) {
  std::va_list rest;
  va_start(rest, number);
  Words words{};
  for (long& word : words)
    word = va_arg(rest, long);
  va_end(rest);
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
  return next<long(long, ...), "syscall">()(number, words[0], words[1], words[2], words[3],
                                            words[4], words[5]);
}
