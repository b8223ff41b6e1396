// Calls that ask for a file's status, or cut it, by its name: they must see what is in buffers.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "interpose/standing_in.hpp"

using ferry::iobuf::either;
using ferry::iobuf::Files;
using ferry::iobuf::FunctionName;
using ferry::iobuf::next;
using ferry::iobuf::or_kernel;
using ferry::iobuf::TrackedFile;

namespace {

// Whether its buffers have been written now.
bool is_flushed(const struct stat& status) {
  return S_ISREG(status.st_mode) && Files::instance().flush_file(status);
}
bool is_flushed(const struct statx& status) {
  struct stat wanted {};
  wanted.st_mode = status.stx_mode;
  wanted.st_dev = makedev(status.stx_dev_major, status.stx_dev_minor);
  wanted.st_ino = status.stx_ino;
  return is_flushed(wanted);
}

void flush(int descriptor) {
  either(
      descriptor, [](TrackedFile& file) { return file.flush(); }, [] { return 0; });
}

// A glibc before 2.33 has no functions of these names. The kernel's structure is that of the C
// library on machines of 64 bits.
template <FunctionName name>
int status_of(int folder, const char* path, struct stat* status, int flags) {
  return static_cast<int>(or_kernel<int(int, const char*, struct stat*, int), name>(
      SYS_newfstatat, folder, path, status, flags));
}
template <FunctionName name>
int status_of(const char* path, struct stat* status, int flags) {
  if (auto* own = next<int(const char*, struct stat*), name>(); own != nullptr)
    return own(path, status);
  return status_of<"fstatat">(AT_FDCWD, path, status, flags);
}
template <FunctionName name, class... Words>
int status_by(Words... words) {
  return next<int(Words...), name>()(words...);
}

}  // namespace

// Asks again if that wrote the file's buffers.
#define FERRY_STATUS(name, ask, ...)                        \
  FERRY_STANDS_IN(int, name, __VA_ARGS__) {                 \
    const auto own = [&] { return ask; };                   \
    const int result = own();                               \
    if (result != 0 || !is_flushed(*status)) return result; \
    return own();                                           \
  }
FERRY_STATUS(stat, (status_of<"stat">(path, status, 0)), const char* path, struct stat* status)
FERRY_STATUS(stat64, (status_of<"stat64">(path, status, 0)), const char* path, struct stat* status)
FERRY_STATUS(lstat, (status_of<"lstat">(path, status, AT_SYMLINK_NOFOLLOW)), const char* path,
             struct stat* status)
FERRY_STATUS(lstat64, (status_of<"lstat64">(path, status, AT_SYMLINK_NOFOLLOW)), const char* path,
             struct stat* status)
FERRY_STATUS(fstatat, (status_of<"fstatat">(folder, path, status, flags)), int folder,
             const char* path, struct stat* status, int flags)
FERRY_STATUS(fstatat64, (status_of<"fstatat64">(folder, path, status, flags)), int folder,
             const char* path, struct stat* status, int flags)
FERRY_STATUS(statx, (status_by<"statx">(folder, path, flags, mask, status)), int folder,
             const char* path, int flags, unsigned mask, struct statx* status)
// What programs call that were built with such a glibc.
#define FERRY_VERSIONED_STATUS(suffix)                                                         \
  FERRY_STATUS(__xstat##suffix, (status_by<"__xstat" #suffix>(version, path, status)),         \
               int version, const char* path, struct stat* status)                             \
  FERRY_STATUS(__lxstat##suffix, (status_by<"__lxstat" #suffix>(version, path, status)),       \
               int version, const char* path, struct stat* status)                             \
  FERRY_STATUS(__fxstat##suffix, (status_by<"__fxstat" #suffix>(version, descriptor, status)), \
               int version, int descriptor, struct stat* status)                               \
  FERRY_STATUS(__fxstatat##suffix,                                                             \
               (status_by<"__fxstatat" #suffix>(version, folder, path, status, flags)),        \
               int version, int folder, const char* path, struct stat* status, int flags)
FERRY_VERSIONED_STATUS()
FERRY_VERSIONED_STATUS(64)

// Times that a program sets are not those of writes that it made before.
#define FERRY_TIMES_OF(name, ...)                                   \
  FERRY_STANDS_IN(int, name, int descriptor, __VA_ARGS__) {         \
    flush(descriptor);                                              \
    return next<int(int, __VA_ARGS__), #name>()(descriptor, times); \
  }
FERRY_TIMES_OF(futimens, const struct timespec* times)
FERRY_TIMES_OF(futimes, const struct timeval* times)
#define FERRY_TIMES_BY_NAME(name, ...)                                \
  FERRY_STANDS_IN(int, name, const char* path, __VA_ARGS__) {         \
    Files::instance().flush_named(AT_FDCWD, path);                    \
    return next<int(const char*, __VA_ARGS__), #name>()(path, times); \
  }
FERRY_TIMES_BY_NAME(utimes, const struct timeval* times)
FERRY_TIMES_BY_NAME(lutimes, const struct timeval* times)
FERRY_TIMES_BY_NAME(utime, const struct utimbuf* times)
FERRY_STANDS_IN(int, futimesat, int folder, const char* path, const struct timeval* times) {
  Files::instance().flush_named(folder, path);
  return next<int(int, const char*, const struct timeval*), "futimesat">()(folder, path, times);
}
FERRY_STANDS_IN(int, utimensat, int folder, const char* path, const struct timespec* times,
                int flags) {
  if (path != nullptr) {
    Files::instance().flush_named(folder, path);
  } else {
    flush(folder);  // the descriptor itself
  }
  return next<int(int, const char*, const struct timespec*, int), "utimensat">()(folder, path,
                                                                                 times, flags);
}

#define FERRY_TRUNCATE_PATH(name)                                         \
  FERRY_STANDS_IN(int, name, const char* path, off_t size_bytes) {        \
    Files::instance().release_named(AT_FDCWD, path, "truncated by name"); \
    return next<int(const char*, off_t), #name>()(path, size_bytes);      \
  }
FERRY_TRUNCATE_PATH(truncate)
FERRY_TRUNCATE_PATH(truncate64)

FERRY_STANDS_IN(void, sync, void) {
  Files::instance().flush_all();
  next<void(), "sync">()();
}
FERRY_STANDS_IN(int, syncfs, int descriptor) {
  Files::instance().flush_all();
  return next<int(int), "syncfs">()(descriptor);
}
