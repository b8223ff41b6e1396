// A program unaware of buffering: many_descriptors SEED FILE OTHER LINK. It makes random calls by
// several descriptors, streams, names and mappings of two files, and by children. What it prints,
// and the files, must not depend on buffering.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  slots = 5,
  streams_max = 2,
  mappings_max = 2,
  data_max = 5000,
  file_max = 20000,
  steps = 400
};

static uint64_t state;
static uint64_t below(uint64_t limit) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % limit;
}

static const char* names[3];
static int files[slots];
static FILE* streams[streams_max];
static const unsigned char* mappings[mappings_max];
static char data[data_max];

static const char* any_name(void) {
  return names[below(8) == 0 ? 2 : below(2)];
}
static int any_file(void) {
  return files[below(slots)];
}
static size_t any_bytes(void) {
  const size_t bytes = (size_t)below(below(10) == 0 ? data_max : 80);
  const char first = (char)('a' + below(26));
  for (size_t i = 0; i < bytes; ++i)
    data[i] = (char)(first + (char)(i % 7));
  return bytes;
}
static off_t any_offset(void) {
  return (off_t)below(below(4) == 0 ? file_max : 600);
}

static unsigned hash_of(const char* bytes, ssize_t count) {
  unsigned hash = 7;
  for (ssize_t i = 0; i < count; ++i)
    hash = hash * 31 + (unsigned char)bytes[i];
  return hash;
}

static int opened(void) {
  static const int modes[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR};
  int flags = modes[below(5)];
  if (below(2) == 0) flags |= O_CREAT;
  if (below(8) == 0) flags |= O_TRUNC;
  if (below(6) == 0) flags |= O_APPEND;
  if (below(10) == 0) flags |= O_DSYNC;
  const char* name = any_name();
  return below(8) == 0 ? creat(name, 0600) : open(name, flags, 0600);
}

static int copied(int file) {
  switch (below(3)) {
    case 0:
      return dup(file);
    case 1:
      return fcntl(file, F_DUPFD_CLOEXEC, 20);
    default:
      return dup3(file, 90 + (int)below(4), 0);
  }
}

static long long size_of(int file) {
  struct stat status = {0};
  struct statx extended = {0};
  int result = 0;
  switch (below(6)) {
    case 0:
      result = stat(any_name(), &status);
      break;
    case 1:
      result = lstat(any_name(), &status);
      break;
    case 2:
      result = fstatat(AT_FDCWD, any_name(), &status, 0);
      break;
    case 3:
      result = statx(AT_FDCWD, any_name(), 0, STATX_SIZE, &extended);
      status.st_size = (off_t)extended.stx_size;
      break;
    case 4:
      result = (int)syscall(SYS_newfstatat, file, "", &status, AT_EMPTY_PATH);
      break;
    default:
      result = fstat(file, &status);
  }
  return result == 0 ? (long long)status.st_size : -1;
}

// A call that moves data, or the position.
static long long moved(int file) {
  struct iovec vectors[2];
  const size_t bytes = any_bytes();
  vectors[0] = (struct iovec){data, bytes / 3};
  vectors[1] = (struct iovec){data + bytes / 3, bytes - bytes / 3};
  const uint64_t choice = below(14);
  ssize_t got = 0;
  switch (choice) {
    case 0:
    case 1:
      return write(file, data, bytes);
    case 2:
    case 3:
      return pwrite(file, data, bytes, any_offset());
    case 4:
      return writev(file, vectors, 2);
    case 5:
      return pwritev(file, vectors, 2, any_offset());
    case 6:
      got = read(file, data, bytes);
      break;
    case 7:
    case 8:
      got = pread(file, data, bytes, any_offset());
      break;
    case 9:
      got = preadv(file, vectors, 2, any_offset());
      break;
    case 10:
      return lseek(file, any_offset(), SEEK_SET);
    case 11:
      return lseek(file, 0, below(2) == 0 ? SEEK_END : SEEK_CUR);
    case 12:
      got = syscall(SYS_pread64, file, data, bytes, any_offset());
      break;
    default:
      return below(3) == 0 ? ftruncate(file, any_offset()) : fsync(file);
  }
  printf("%08x ", hash_of(data, got));
  return got;
}

// Its stream's own buffer is empty afterwards.
static long long with_stream(FILE** stream) {
  if (*stream == NULL) {
    static const char* const modes[] = {"a", "w", "r+", "r+"};
    *stream = fopen(any_name(), modes[below(4)]);
    return *stream != NULL;
  }
  if (below(4) == 0) {
    const int result = fclose(*stream);
    *stream = NULL;
    return result;
  }
  if (below(2) == 0 && fseek(*stream, (long)any_offset(), SEEK_SET) != 0) return -1;
  const size_t written = fwrite(data, 1, any_bytes(), *stream);
  return fflush(*stream) == 0 ? (long long)written : -1;
}

// Of a mapping: a pipe reads it, which fails where the file has been cut.
static long long with_mapping(const unsigned char** mapping, int file) {
  if (*mapping == NULL) {
    void* mapped = mmap(NULL, 100, PROT_READ, MAP_SHARED, file, 0);
    *mapping = mapped == MAP_FAILED ? NULL : mapped;
    return *mapping != NULL;
  }
  int ends[2];
  char seen[100];
  if (pipe(ends) != 0) return -1;
  const ssize_t written = write(ends[1], *mapping, sizeof seen);
  const ssize_t got = written > 0 ? read(ends[0], seen, sizeof seen) : 0;
  close(ends[0]);
  close(ends[1]);
  if (below(3) == 0) {
    munmap((void*)*mapping, sizeof seen);
    *mapping = NULL;
  }
  printf("%08x ", hash_of(seen, got));
  return written;
}

static long long with_name(void) {
  switch (below(5)) {
    case 0:
      return rename(names[below(2)], names[below(2)]);
    case 1:
      return unlink(any_name());
    case 2:
      return link(names[below(2)], names[2]);
    case 3:
      return rename(names[2], names[below(2)]);
    default:
      return truncate(any_name(), any_offset());
  }
}

static long long by_child(int file) {
  fflush(stdout);
  const pid_t child = below(3) == 0 ? _Fork() : fork();
  if (child == 0) {
    const ssize_t written = write(file, "by the child", 12);
    const ssize_t got = pread(file, data, 50, 0);
    _exit((int)((hash_of(data, got) + (unsigned)written) & 127));
  }
  int status = 0;
  return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

static long long between(int from, int to) {
  off_t source = any_offset();
  off_t target = any_offset();
  if (below(2) == 0) return sendfile(to, from, &source, any_bytes());
  return copy_file_range(from, &source, to, &target, any_bytes(), 0);
}

static long long one_step(uint64_t choice) {
  if (choice < 6) {
    int* slot = &files[below(slots)];
    const int old = *slot;
    *slot = opened();
    if (old >= 0 && close(old) != 0) return -2;
    return *slot >= 0;
  }
  if (choice < 8) {
    int* slot = &files[below(slots)];
    if (*slot < 0) return -3;
    const int result = close(*slot);
    *slot = -1;
    return result;
  }
  const int file = any_file();
  if (choice < 9) return with_name();
  if (choice < 14) return with_stream(&streams[below(streams_max)]);
  if (file < 0) return -4;
  if (choice < 17) {
    int* slot = &files[below(slots)];
    if (*slot >= 0) return -5;
    *slot = copied(file);
    return *slot >= 0;
  }
  if (choice < 20) return size_of(file);
  if (choice < 21) return by_child(file);
  if (choice < 22) return between(file, any_file());
  if (choice < 23) return with_mapping(&mappings[below(mappings_max)], file);
  return moved(file);
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  state = strtoull(arguments[1], NULL, 10) * 2654435761u + 88172645463325252u;
  for (int i = 0; i < 3; ++i)
    names[i] = arguments[2 + i];
  for (int i = 0; i < slots; ++i)
    files[i] = -1;
  for (int step = 0; step < steps; ++step) {
    const uint64_t choice = below(60);
    errno = 0;
    const long long result = one_step(choice);
    printf("%d: %d %lld %d\n", step, (int)choice, result, result < 0 ? errno : 0);
  }
  return 0;
}
