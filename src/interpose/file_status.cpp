// Calls that ask for a file's status, or cut it, by its name: they must see what is in buffers.
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "interpose/standing_in.hpp"

using ferry::iobuf::Files;
using ferry::iobuf::next;

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

}  // namespace

// Asks again if that wrote the file's buffers.
#define FERRY_STATUS(name, parameters, ...)                 \
  FERRY_STANDS_IN(int, name, __VA_ARGS__) {                 \
    auto* own = next<int(__VA_ARGS__), #name>();            \
    const int result = own parameters;                      \
    if (result != 0 || !is_flushed(*status)) return result; \
    return own parameters;                                  \
  }
FERRY_STATUS(stat, (path, status), const char* path, struct stat* status)
FERRY_STATUS(lstat, (path, status), const char* path, struct stat* status)
FERRY_STATUS(fstatat, (folder, path, status, flags), int folder, const char* path,
             struct stat* status, int flags)
FERRY_STATUS(statx, (folder, path, flags, mask, status), int folder, const char* path, int flags,
             unsigned mask, struct statx* status)
// The same structure on machines of 64 bits.
FERRY_STATUS(stat64, (path, status), const char* path, struct stat* status)
FERRY_STATUS(lstat64, (path, status), const char* path, struct stat* status)
FERRY_STATUS(fstatat64, (folder, path, status, flags), int folder, const char* path,
             struct stat* status, int flags)
// What programs call that were built with a glibc before 2.33.
FERRY_STATUS(__xstat, (version, path, status), int version, const char* path, struct stat* status)
FERRY_STATUS(__lxstat, (version, path, status), int version, const char* path, struct stat* status)
FERRY_STATUS(__fxstat, (version, descriptor, status), int version, int descriptor,
             struct stat* status)
FERRY_STATUS(__fxstatat, (version, folder, path, status, flags), int version, int folder,
             const char* path, struct stat* status, int flags)
FERRY_STATUS(__xstat64, (version, path, status), int version, const char* path, struct stat* status)
FERRY_STATUS(__lxstat64, (version, path, status), int version, const char* path,
             struct stat* status)
FERRY_STATUS(__fxstat64, (version, descriptor, status), int version, int descriptor,
             struct stat* status)
FERRY_STATUS(__fxstatat64, (version, folder, path, status, flags), int version, int folder,
             const char* path, struct stat* status, int flags)

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
