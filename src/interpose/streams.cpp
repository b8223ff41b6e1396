// C stdio. The C library's streams bypass replaced read and write functions, so a stream of a
// buffered file is a custom one (fopencookie) on its descriptor.
#include "interpose/streams.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "interpose/standing_in.hpp"

using ferry::iobuf::Files;
using ferry::iobuf::next;
using ferry::run::CachedReads;
using ferry::run::DescriptorChange;

// Of glibc, which has no header for them. A thread may lock again what it has locked.
extern "C" {
void lock_list_of_streams() __asm__("_IO_list_lock");
void unlock_list_of_streams() __asm__("_IO_list_unlock");
void reset_list_of_streams() __asm__("_IO_list_resetlock");
}

namespace {

// The descriptors of our streams; never destroyed, because streams close at the very end.
class Streams {
 public:
  static Streams& instance() {
    alignas(Streams) static std::byte memory[sizeof(Streams)];
    static Streams& streams = *new (memory) Streams;
    return streams;
  }
  // A custom stream on the descriptor; null without memory.
  FILE* open(int descriptor, const char* mode);
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void remove(int descriptor) {
    const std::lock_guard lock(mutex_);
    streams_.erase(descriptor);
  }
  int find(FILE* stream) {
    if (!Files::instance().buffers()) return -1;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(streams_.begin(), streams_.end(),
                                    [&](const auto& one) { return one.second == stream; });
    return found != streams_.end() ? found->first : -1;
  }

 private:
  std::mutex mutex_;
  std::map<int, FILE*> streams_;  // by descriptor
};

int descriptor_of(void* cookie) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(cookie));
}

// These go through the functions of descriptors.cpp.
ssize_t read_stream(void* cookie, char* data, size_t bytes) {
  return ::read(descriptor_of(cookie), data, bytes);
}
ssize_t write_stream(void* cookie, const char* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t moved = ::write(descriptor_of(cookie), data + done, bytes - done);
    if (moved <= 0) return static_cast<ssize_t>(done);  // fewer than asked for: an error
    done += static_cast<size_t>(moved);
  }
  return static_cast<ssize_t>(done);
}
int seek_stream(void* cookie, off64_t* offset, int whence) {
  const off_t reached = ::lseek(descriptor_of(cookie), *offset, whence);
  if (reached < 0) return -1;
  *offset = reached;
  return 0;
}
int close_stream(void* cookie) {
  Streams::instance().remove(descriptor_of(cookie));
  return ::close(descriptor_of(cookie));
}

FILE* Streams::open(int descriptor, const char* mode) try {
  {
    const std::lock_guard lock(mutex_);
    streams_[descriptor] = nullptr;  // has the memory for it
  }
  const cookie_io_functions_t functions{read_stream, write_stream, seek_stream, close_stream};
  // Without the lock, which comes after those that this takes.
  FILE* const stream =
      fopencookie(reinterpret_cast<void*>(std::intptr_t{descriptor}), mode, functions);
  const std::lock_guard lock(mutex_);
  if (stream != nullptr)
    streams_[descriptor] = stream;
  else
    streams_.erase(descriptor);
  return stream;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// The flags of open(2) for a mode of fopen, or -1 to leave it to the C library.
int flags_of(const char* mode) {
  if (std::strchr(mode, ',') != nullptr) return -1;  // a character set
  int flags = 0;
  if (mode[0] == 'r') {
    flags = O_RDONLY;
  } else if (mode[0] == 'w') {
    flags = O_WRONLY | O_CREAT | O_TRUNC;
  } else {
    return -1;  // appending is not buffered
  }
  for (const char* at = mode + 1; *at != '\0'; ++at) {
    if (*at == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
    if (*at == 'x') flags |= O_EXCL;
    if (*at == 'e') flags |= O_CLOEXEC;
  }
  return flags;
}

// Around a call by which the C library opens a file itself, without buffers of this library.
void before_own_open(const char* path, const char* mode) {
  if (path != nullptr && mode[0] == 'w')
    Files::instance().release_named(AT_FDCWD, path, "truncated by name");
}
FILE* after_own_open(FILE* stream) {
  if (stream != nullptr && Files::instance().buffers())
    Files::instance().opened(next<int(FILE*), "fileno">()(stream), "", O_APPEND);
  return stream;
}

using OpenStream = FILE*(const char*, const char*);

FILE* open_stream(const char* path, const char* mode, OpenStream* own) {
  const int flags = flags_of(mode);
  if (flags < 0 || !Files::instance().wants(path)) {
    before_own_open(path, mode);
    return after_own_open(own(path, mode));
  }
  constexpr mode_t all_may = 0666;
  const int descriptor = ::open(path, flags, all_may);
  if (descriptor < 0) return nullptr;
  FILE* stream = nullptr;
  if (Files::instance().find(descriptor) != nullptr)
    stream = Streams::instance().open(descriptor, mode);
  // Not buffered (a pipe, for example), or no memory for a stream of ours.
  if (stream == nullptr) stream = ::fdopen(descriptor, mode);
  if (stream == nullptr) ::close(descriptor);
  return stream;
}

}  // namespace

namespace ferry::iobuf {

void lock_streams() {
  lock_list_of_streams();
  Streams::instance().lock();
}
void unlock_streams() {
  Streams::instance().unlock();
  unlock_list_of_streams();
}
// The C library has made its lock anew, but where the parent had one thread.
void unlock_streams_in_child() {
  Streams::instance().unlock();
  reset_list_of_streams();
}

}  // namespace ferry::iobuf

FERRY_STANDS_IN(FILE*, fopen, const char* path, const char* mode) {
  return open_stream(path, mode, next<OpenStream, "fopen">());
}
FERRY_STANDS_IN(FILE*, fopen64, const char* path, const char* mode) {
  return open_stream(path, mode, next<OpenStream, "fopen64">());
}
// The C library's stream would bypass the buffers.
#define FERRY_FDOPEN(name)                                           \
  FERRY_STANDS_IN(FILE*, name, int descriptor, const char* mode) {   \
    Files::instance().release(descriptor, "fdopen");                 \
    CachedReads::instance().give_back_position(descriptor);          \
    return next<FILE*(int, const char*), #name>()(descriptor, mode); \
  }
FERRY_FDOPEN(fdopen)
FERRY_FDOPEN(_IO_fdopen)
// closedir closes it unseen.
FERRY_STANDS_IN(DIR*, fdopendir, int descriptor) {
  CachedReads::instance().leave(descriptor);
  return next<DIR*(int), "fdopendir">()(descriptor);
}
FERRY_STANDS_IN(int, fileno, FILE* stream) {
  const int descriptor = Streams::instance().find(stream);
  return descriptor >= 0 ? descriptor : next<int(FILE*), "fileno">()(stream);
}
FERRY_STANDS_IN(int, fileno_unlocked, FILE* stream) {
  const int descriptor = Streams::instance().find(stream);
  return descriptor >= 0 ? descriptor : next<int(FILE*), "fileno_unlocked">()(stream);
}

namespace {

// The descriptor that the C library closes with a stream: one of fdopen, for example; -1 for ours,
// which close theirs themselves.
int closed_with(FILE* stream) {
  const int saved = errno;
  const int descriptor = next<int(FILE*), "fileno">()(stream);
  errno = saved;
  return descriptor;
}

}  // namespace

#define FERRY_CLOSE_STREAM(name)                                            \
  FERRY_STANDS_IN(int, name, FILE* stream) {                                \
    if (stream == stderr) CachedReads::instance().closing_standard_error(); \
    const DescriptorChange change(closed_with(stream));                     \
    return next<int(FILE*), #name>()(stream);                               \
  }
FERRY_CLOSE_STREAM(fclose)
FERRY_CLOSE_STREAM(_IO_fclose)

#define FERRY_REOPEN(name)                                                          \
  FERRY_STANDS_IN(FILE*, name, const char* path, const char* mode, FILE* stream) {  \
    const DescriptorChange change(closed_with(stream));                             \
    before_own_open(path, mode);                                                    \
    return after_own_open(                                                          \
        next<FILE*(const char*, const char*, FILE*), #name>()(path, mode, stream)); \
  }
FERRY_REOPEN(freopen)
FERRY_REOPEN(freopen64)

// They write at the kernel's position.
FERRY_STANDS_IN(int, vdprintf, int descriptor, const char* format, std::va_list arguments) {
  Files::instance().release(descriptor, "dprintf");
  return next<int(int, const char*, std::va_list), "vdprintf">()(descriptor, format, arguments);
}
FERRY_STANDS_IN(int, __vdprintf_chk, int descriptor, int checks, const char* format,
                std::va_list arguments) {
  Files::instance().release(descriptor, "dprintf");
  return next<int(int, int, const char*, std::va_list), "__vdprintf_chk">()(descriptor, checks,
                                                                            format, arguments);
}
FERRY_STANDS_IN(int, dprintf, int descriptor, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int written = vdprintf_here(descriptor, format, arguments);
  va_end(arguments);
  return written;
}
FERRY_STANDS_IN(int, __dprintf_chk, int descriptor, int checks, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int written = __vdprintf_chk_here(descriptor, checks, format, arguments);
  va_end(arguments);
  return written;
}
