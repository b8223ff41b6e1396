// Calls with a descriptor: buffers small reads and writes, lets ferryd serve reads, and ends both
// where needed.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fs.h>
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

#include "interpose/descriptor_calls.hpp"
#include "interpose/standing_in.hpp"

using ferry::iobuf::either;
using ferry::iobuf::Files;
using ferry::iobuf::next;
using ferry::iobuf::or_kernel;
using ferry::iobuf::TrackedFile;
using ferry::run::before_control;
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

// What is in buffers belongs to the file before it is cut.
void before_open(int folder, const char* path, int flags) {
  if ((flags & O_TRUNC) != 0) Files::instance().release_named(folder, path, "truncated by name");
}
// A new descriptor of a file that is left without buffers.
int unnamed(int descriptor) {
  if (descriptor >= 0) Files::instance().opened(descriptor, "", O_APPEND);
  return descriptor;
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

// Vectored transfers, one vector after another: `transfer(data, bytes, done)`. Without bytes, the
// descriptor must be right all the same.
template <class Transfer>
ssize_t for_vectors(const iovec* vectors, int count, Transfer&& transfer) {
  if (count < 0 || count > 1024) {
    errno = EINVAL;
    return -1;
  }
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    if (vectors[i].iov_len == 0 && (done > 0 || i + 1 < count)) continue;
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

#define FERRY_OPEN(name)                                                 \
  FERRY_STANDS_IN(int, name, const char* path, int flags, ...) {         \
    FERRY_MODE_AFTER_FLAGS                                               \
    before_open(AT_FDCWD, path, flags);                                  \
    return tracked(next<Open, #name>()(path, flags, mode), path, flags); \
  }
FERRY_OPEN(open)
FERRY_OPEN(open64)
FERRY_OPEN(__open)
FERRY_OPEN(__open64)
#define FERRY_OPEN_AT(name)                                                        \
  FERRY_STANDS_IN(int, name, int folder, const char* path, int flags, ...) {       \
    FERRY_MODE_AFTER_FLAGS                                                         \
    before_open(folder, path, flags);                                              \
    return tracked(next<OpenAt, #name>()(folder, path, flags, mode), path, flags); \
  }
FERRY_OPEN_AT(openat)
FERRY_OPEN_AT(openat64)
// Those without a mode, of programs that are built with _FORTIFY_SOURCE.
#define FERRY_OPEN_2(name)                                                          \
  FERRY_STANDS_IN(int, name, const char* path, int flags) {                         \
    before_open(AT_FDCWD, path, flags);                                             \
    return tracked(next<int(const char*, int), #name>()(path, flags), path, flags); \
  }
FERRY_OPEN_2(__open_2)
FERRY_OPEN_2(__open64_2)
#define FERRY_OPEN_AT_2(name)                                                                    \
  FERRY_STANDS_IN(int, name, int folder, const char* path, int flags) {                          \
    before_open(folder, path, flags);                                                            \
    return tracked(next<int(int, const char*, int), #name>()(folder, path, flags), path, flags); \
  }
FERRY_OPEN_AT_2(__openat_2)
FERRY_OPEN_AT_2(__openat64_2)
#define FERRY_CREAT(name)                                                                \
  FERRY_STANDS_IN(int, name, const char* path, mode_t mode) {                            \
    before_open(AT_FDCWD, path, O_TRUNC);                                                \
    return tracked(next<int(const char*, mode_t), #name>()(path, mode), path, O_WRONLY); \
  }
FERRY_CREAT(creat)
FERRY_CREAT(creat64)
FERRY_STANDS_IN(int, open_by_handle_at, int mount, struct file_handle* file, int flags) {
  return unnamed(
      next<int(int, struct file_handle*, int), "open_by_handle_at">()(mount, file, flags));
}
// The template holds the name afterwards.
#define FERRY_TEMPORARY(name, parameters, ...)                                       \
  FERRY_STANDS_IN(int, name, char* path __VA_OPT__(, ) __VA_ARGS__) {                \
    return unnamed(next<int(char* __VA_OPT__(, ) __VA_ARGS__), #name>() parameters); \
  }
FERRY_TEMPORARY(mkstemp, (path))
FERRY_TEMPORARY(mkstemp64, (path))
FERRY_TEMPORARY(mkostemp, (path, flags), int flags)
FERRY_TEMPORARY(mkostemp64, (path, flags), int flags)
FERRY_TEMPORARY(mkstemps, (path, behind), int behind)
FERRY_TEMPORARY(mkstemps64, (path, behind), int behind)
FERRY_TEMPORARY(mkostemps, (path, behind, flags), int behind, int flags)
FERRY_TEMPORARY(mkostemps64, (path, behind, flags), int behind, int flags)

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
  return static_cast<int>(
      or_kernel<int(unsigned, unsigned, int), "close_range">(SYS_close_range, first, last, flags));
}
FERRY_STANDS_IN(void, closefrom, int first) {
  Files::instance().release_all("closefrom");
  const DescriptorChange change(static_cast<unsigned>(std::max(first, 0)), ~0U);
  if (auto* original = next<void(int), "closefrom">(); original != nullptr) return original(first);
  ferry::kernel_call(SYS_close_range, std::max(first, 0), ~0U, 0);
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
#define FERRY_WRITTEN_WITH_FLAGS(name)                                                            \
  FERRY_STANDS_IN(ssize_t, name, int descriptor, const iovec* vectors, int count, off_t offset,   \
                  int flags) {                                                                    \
    release(descriptor, #name);                                                                   \
    return next<ssize_t(int, const iovec*, int, off_t, int), #name>()(descriptor, vectors, count, \
                                                                      offset, flags);             \
  }
FERRY_WRITTEN_WITH_FLAGS(pwritev2)
FERRY_WRITTEN_WITH_FLAGS(pwritev64v2)
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
    Files::instance().copied(copy >= 0 ? copy : to); /* it is open */  \
    return copy;                                                       \
  }
FERRY_DUP_TO(dup2, (from, to), int from, int to)
FERRY_DUP_TO(__dup2, (from, to), int from, int to)
FERRY_DUP_TO(dup3, (from, to, flags), int from, int to, int flags)

// Programs lock files that several processes write, which must see each other's data.
void ferry::run::before_control(int descriptor, int command, long argument) {
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
  if (request == FICLONE) release(static_cast<int>(argument), "cloned");
  if (request == FICLONERANGE && argument != 0)
    release(static_cast<int>(reinterpret_cast<const file_clone_range*>(argument)->src_fd),
            "cloned");
  if (request == FICLONE || request == FICLONERANGE || request == FIDEDUPERANGE)
    release(descriptor, "cloned");
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

// The parts of a message that carry descriptors.
template <class Use>
void for_descriptors(const msghdr& message, const Use& use) {
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* control = CMSG_FIRSTHDR(header); control != nullptr;
       control = CMSG_NXTHDR(header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) use(*control);
  }
}
void give_back_sent(const msghdr& message) {
  for_descriptors(message, [](const cmsghdr&) {
    Files::instance().release_all("a descriptor was sent");
    CachedReads::instance().give_back_positions();
  });
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

FERRY_STANDS_IN(int, pidfd_getfd, int process, int descriptor, unsigned flags) {
  // It may be this process.
  Files::instance().release_all("pidfd_getfd");
  CachedReads::instance().give_back_positions();
  const auto copy = static_cast<int>(or_kernel<int(int, int, unsigned), "pidfd_getfd">(
      SYS_pidfd_getfd, process, descriptor, flags));
  Files::instance().copied(copy);
  return copy;
}

void ferry::run::received(const msghdr& message) {
  for_descriptors(message, [](const cmsghdr& control) {
    const std::size_t bytes = control.cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(&control) + at, sizeof descriptor);
      Files::instance().copied(descriptor);
    }
  });
}
FERRY_STANDS_IN(ssize_t, recvmsg, int socket, msghdr* message, int flags) {
  const ssize_t got = next<ssize_t(int, msghdr*, int), "recvmsg">()(socket, message, flags);
  if (got >= 0 && Files::buffers()) ferry::run::received(*message);
  return got;
}
FERRY_STANDS_IN(int, recvmmsg, int socket, mmsghdr* messages, unsigned count, int flags,
                timespec* timeout) {
  const int got = next<int(int, mmsghdr*, unsigned, int, timespec*), "recvmmsg">()(
      socket, messages, count, flags, timeout);
  for (int i = 0; i < got && Files::buffers(); ++i)
    ferry::run::received(messages[i].msg_hdr);
  return got;
}
