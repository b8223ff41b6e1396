// Programs unaware of buffering: small_requests WHAT FILE. Their output and FILE must not depend on
// it.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void require(int right, const char* what) {
  if (right) return;
  printf("%s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t state = 88172645463325252u;
static uint64_t next_random(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

// A call that `choice` names; returns what it returns.
static ssize_t one_call(uint64_t choice, int file, char* data, size_t bytes, off_t at) {
  struct iovec vectors[2] = {{data, bytes / 2}, {data + bytes / 2, bytes - bytes / 2}};
  struct stat status;
  switch (choice) {
    case 0:
    case 1:
      return write(file, data, bytes);
    case 2:
      return pwrite(file, data, bytes, at);
    case 3:
      return writev(file, vectors, 2);
    case 4:
      return pwritev(file, vectors, 2, at);
    case 5:
      return read(file, data, bytes);
    case 6:
      return pread(file, data, bytes, at);
    case 7:
      return readv(file, vectors, 2);
    case 8:
      return lseek(file, at, SEEK_SET);
    case 9:
      return next_random(20) == 0 ? ftruncate(file, at) : lseek(file, -5, SEEK_END);
    default:
      require(fstat(file, &status) == 0, "fstat");
      return status.st_size;
  }
}

// Small writes and reads of all kinds, at random places.
static void calls(const char* path) {
  static char data[3000];
  uint64_t sum = 0;
  const int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
  require(file >= 0, "open");
  for (int i = 0; i < 20000; ++i) {
    const size_t bytes = next_random(i % 50 == 0 ? sizeof data : 60);
    const off_t at = (off_t)next_random(300000);
    for (size_t b = 0; b < bytes; ++b)
      data[b] = (char)next_random(256);
    const ssize_t moved = one_call(next_random(11), file, data, bytes, at);
    sum = sum * 31 + (uint64_t)moved + (uint64_t)(moved > 0 && bytes > 0 ? data[0] : 0);
  }
  const off_t end = lseek(file, 0, SEEK_CUR);
  require(close(file) == 0, "close");
  printf("%llu %lld\n", (unsigned long long)sum, (long long)end);
}

static void stdio(const char* path) {
  FILE* file = fopen(path, "w+");
  require(file != NULL, "fopen");
  for (int i = 0; i < 20000; ++i)
    fprintf(file, "line %d of %d\n", i, 20000);
  printf("%ld\n", ftell(file));
  require(fseek(file, 1000, SEEK_SET) == 0, "fseek");
  fputs("something else", file);
  require(fflush(file) == 0, "fflush");
  struct stat status;
  require(fstat(fileno(file), &status) == 0, "fstat");
  require(stat(path, &status) == 0, "stat");
  printf("%lld\n", (long long)status.st_size);
  rewind(file);
  unsigned sum = 0;
  for (int c; (c = getc(file)) != EOF;)
    sum = sum * 31 + (unsigned)c;
  require(!ferror(file), "getc");
  require(fclose(file) == 0, "fclose");
  file = fopen(path, "r");
  char line[100];
  int lines = 0;
  while (fgets(line, sizeof line, file) != NULL)
    ++lines;
  require(!ferror(file), "fgets");
  require(fclose(file) == 0, "fclose");
  printf("%u %d\n", sum, lines);
  require(fopen("nowhere/file.dat", "r") == NULL && errno == ENOENT, "nowhere");
}

static int opened(const char* path) {
  const int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
  require(file >= 0, "open");
  for (int i = 0; i < 100; ++i)
    require(write(file, "before ", 7) == 7, "write");
  return file;
}

static void with_fork(const char* path) {
  const int file = opened(path);
  fflush(stdout);
  const pid_t child = fork();
  for (int turn = 0; turn < 2; ++turn) {
    if ((child == 0) == (turn == 0))
      require(write(file, child == 0 ? "child " : "parent ", 6) == 6, "write");
    if (child == 0) _exit(0);
    if (turn == 0) require(waitpid(child, NULL, 0) == child, "waitpid");
  }
  require(close(file) == 0, "close");
}

static volatile int forks_to_come = 300;

// Each line is in the file before the next.
static void* write_lines(void* path) {
  while (forks_to_come > 0) {
    FILE* const stream = fopen(path, "w");
    require(stream != NULL, "fopen");
    for (int i = 0; i < 300; ++i) {
      fprintf(stream, "line %d\n", i);
      require(fflush(NULL) == 0, "fflush");
      if (i % 7 == 0) require(fileno(stream) > 2, "fileno");
    }
    require(fclose(stream) == 0, "fclose");
  }
  return NULL;
}

// Children start while another thread is anywhere in its streams. Each uses streams of its own.
static void with_forks_of_threads(const char* path) {
  pthread_t writer;
  require(pthread_create(&writer, NULL, write_lines, (void*)path) == 0, "pthread_create");
  for (; forks_to_come > 0; --forks_to_come) {
    // Sees no handler of fork.
    const pid_t bare =
        forks_to_come % 2 == 0 ? _Fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (bare == 0) {
      const int other = open(path, O_RDWR | O_CREAT, 0600);
      _exit(other >= 0 && close(other) == 0 ? 4 : 1);
    }
    int end = 0;
    require(waitpid(bare, &end, 0) == bare && WEXITSTATUS(end) == 4, "waitpid");
    const pid_t child = fork();
    if (child == 0) {
      FILE* const other = fopen("/dev/null", "r");
      _exit(other != NULL && fileno(other) > 2 && fclose(other) == 0 ? 3 : 1);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3, "waitpid");
  }
  require(pthread_join(writer, NULL) == 0, "pthread_join");
}

static void with_dup(const char* path) {
  const int file = opened(path);
  const int other = dup(file);
  require(write(other, "other ", 6) == 6 && write(file, "one ", 4) == 4, "write");
  require(dup2(file, 99) == 99 && write(99, "third ", 6) == 6, "dup2");
  require(fcntl(file, F_DUPFD, 120) >= 120, "F_DUPFD");
  printf("%lld\n", (long long)lseek(other, 0, SEEK_CUR));
  require(close(file) == 0 && close(other) == 0 && close(99) == 0, "close");
}

static void opened_twice(const char* path) {
  const int file = opened(path);
  const int other = open(path, O_RDWR);
  char got[8] = "";
  require(read(other, got, 7) == 7, "read");
  require(pwrite(file, "BEFORE ", 7, 0) == 7 && pread(other, got, 7, 0) == 7, "pread");
  printf("%s\n", got);
  const char* mapped = mmap(NULL, 700, PROT_READ, MAP_SHARED, file, 0);
  require(mapped != MAP_FAILED, "mmap");
  printf("%.7s\n", mapped);
}

// What one descriptor writes, the other reads, and the other way round.
static void see_each_other(int one, int other) {
  char got[8] = "";
  require(pwrite(one, "from one", 8, 0) == 8 && pread(other, got, 8, 0) == 8, "pread other");
  printf("%.8s ", got);
  require(pwrite(other, "by other", 8, 0) == 8 && pread(one, got, 8, 0) == 8, "pread one");
  printf("%.8s\n", got);
}

// The file is open or mapped by another way before a descriptor of it is opened that might be
// buffered.
static void opened_beside_others(const char* path) {
  int file = opened(path);
  require(close(file) == 0, "close");

  int other = open(path, O_RDWR | O_SYNC);
  file = open(path, O_RDWR);
  see_each_other(file, other);
  require(close(other) == 0 && close(file) == 0, "close");

  // The first of three is closed.
  const int first = open(path, O_RDWR);
  other = open(path, O_RDWR);
  require(close(first) == 0, "close");
  file = open(path, O_RDWR);
  see_each_other(file, other);
  require(close(other) == 0 && close(file) == 0, "close");

  const int copies[] = {F_DUPFD, F_DUPFD_CLOEXEC, -1, -2, -3};
  for (int i = 0; i < 5; ++i) {
    const int origin = open(path, O_RDWR);
    other = copies[i] >= 0    ? fcntl(origin, copies[i], 200)
            : copies[i] == -1 ? dup(origin)
            : copies[i] == -2 ? dup2(origin, 300)
                              : dup3(origin, 300, O_CLOEXEC);
    require(other >= 0 && close(origin) == 0, "copy");
    file = open(path, O_RDWR);
    see_each_other(file, other);
    require(close(other) == 0 && close(file) == 0, "close");
  }

  // A copy that is not made closes nothing.
  other = open(path, O_RDWR);
  require(dup2(-1, other) == -1, "dup2");
  file = open(path, O_RDWR);
  see_each_other(file, other);
  require(close(other) == 0 && close(file) == 0, "close");

  // Nor does a child of vfork.
  other = open(path, O_RDWR);
  const pid_t child = vfork();
  if (child == 0) {
    close(other);
    _exit(0);
  }
  require(waitpid(child, NULL, 0) == child, "waitpid");
  file = open(path, O_RDWR);
  see_each_other(file, other);
  require(close(other) == 0 && close(file) == 0, "close");

  file = open(path, O_RDWR);
  const struct iovec two = {"XY", 2};
  require(write(file, "abcd", 4) == 4 && pwritev2(file, &two, 1, -1, 0) == 2, "pwritev2");
  require(pwritev2(file, &two, 1, 1, 0) == 2, "pwritev2");
  char seen[8] = "";
  require(pread(file, seen, 7, 0) == 7 && close(file) == 0, "pread");
  printf("%s\n", seen);

  other = open(path, O_WRONLY | O_APPEND);
  file = open(path, O_RDWR);
  require(pwrite(file, "behind the end", 14, 900) == 14 && write(other, "appended", 8) == 8,
          "append");
  char got[8] = "";
  require(pread(file, got, 8, 914) == 8, "pread");
  printf("%.8s\n", got);
  require(close(other) == 0 && close(file) == 0, "close");

  FILE* log = fopen(path, "a");
  file = open(path, O_RDWR);
  require(log != NULL && pwrite(file, "behind the end", 14, 1000) == 14, "pwrite");
  require(fputs("logged", log) >= 0 && fclose(log) == 0, "fputs");
  printf("%lld\n", (long long)lseek(file, 0, SEEK_END));
  require(close(file) == 0, "close");

  file = open(path, O_RDWR);
  require(pwrite(file, "behind the end", 14, 1100) == 14, "pwrite");
  log = fopen(path, "a");
  require(log != NULL && fputs("logged", log) >= 0 && fclose(log) == 0, "fputs");
  printf("%lld\n", (long long)lseek(file, 0, SEEK_END));
  require(close(file) == 0, "close");

  file = open(path, O_RDWR);
  const char* mapped = mmap(NULL, 700, PROT_READ, MAP_SHARED, file, 0);
  require(mapped != MAP_FAILED && close(file) == 0, "mmap");
  file = open(path, O_RDWR);
  require(pwrite(file, "mapped", 6, 0) == 6, "pwrite");
  printf("%.6s\n", mapped);
  require(close(file) == 0, "close");
}

// By its standard input and output too.
static void opened_beside_inherited(const char* path) {
  const int file = open(path, O_RDWR);
  require(file >= 0 && pwrite(file, "by name ", 8, 0) == 8, "pwrite");
  char got[8] = "";
  require(pread(0, got, 8, 0) == 8, "pread");
  printf("%.8s ", got);
  require(pwrite(0, "by input", 8, 0) == 8 && pread(file, got, 8, 0) == 8, "pread");
  printf("%.8s\n", got);
}

// Others have been closed, so it is buffered.
static void opened_after_others(const char* path) {
  require(close(open(path, O_CREAT | O_RDWR | O_SYNC, 0600)) == 0, "close");
  const int first = open(path, O_RDWR);
  const int second = open(path, O_RDWR);
  require(close(first) == 0 && close(second) == 0, "close");
  require(close(opened(path)) == 0, "close");
}

// What was written before a file is cut does not come back.
static void cut_by_another(const char* path) {
  for (int way = 0; way < 6; ++way) {
    const int file = opened(path);
    FILE* stream = NULL;
    int other = -1;
    if (way == 0) other = open(path, O_WRONLY | O_TRUNC);
    if (way == 1) other = creat(path, 0600);
    if (way == 2) other = openat(AT_FDCWD, path, O_RDWR | O_TRUNC);
    if (way == 3) stream = fopen(path, "w");
    if (way == 4) stream = freopen(path, "w", stderr);
    if (way == 5) require(truncate(path, 0) == 0, "truncate");
    printf("%lld ", (long long)lseek(file, 0, SEEK_END));
    if (stream != NULL) require(fputs("short", stream) >= 0 && fclose(stream) == 0, "fputs");
    if (other >= 0) require(write(other, "short", 5) == 5 && close(other) == 0, "write");
    require(close(file) == 0, "close");
    struct stat status;
    require(stat(path, &status) == 0, "stat");
    printf("%lld\n", (long long)status.st_size);
  }
}

// Of programs that were built with older headers.
int __xstat(int version, const char* path, struct stat* status);
int __lxstat(int version, const char* path, struct stat* status);
int __fxstat(int version, int file, struct stat* status);
int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags);

#ifdef __x86_64__
#define STATUS_VERSION 1
#else
#define STATUS_VERSION 0
#endif

static void sizes(const char* path) {
  const int file = opened(path);
  const int version = STATUS_VERSION;
  for (int way = 0; way < 10; ++way) {
    struct stat status = {0};
    struct statx extended = {0};
    int result = 0;
    require(write(file, "x", 1) == 1, "write");
    if (way == 0) result = stat(path, &status);
    if (way == 1) result = lstat(path, &status);
    if (way == 2) result = fstat(file, &status);
    if (way == 3) result = fstatat(AT_FDCWD, path, &status, 0);
    if (way == 4) result = fstatat(file, "", &status, AT_EMPTY_PATH);
    if (way == 5) result = statx(AT_FDCWD, path, 0, STATX_SIZE, &extended);
    if (way == 6) result = __xstat(version, path, &status);
    if (way == 7) result = __lxstat(version, path, &status);
    if (way == 8) result = __fxstat(version, file, &status);
    if (way == 9) result = __fxstatat(version, AT_FDCWD, path, &status, 0);
    require(result == 0, "status");
    printf("%lld\n", (long long)(way == 5 ? (off_t)extended.stx_size : status.st_size));
  }
  require(close(file) == 0, "close");
}

// Times that the program sets stay.
static void times(const char* path) {
  const struct timespec old[2] = {{1000, 0}, {2000, 0}};
  const struct timeval older[2] = {{500, 0}, {600, 0}};
  for (int way = 0; way < 4; ++way) {
    const int file = opened(path);
    struct stat status;
    if (way == 0) require(futimens(file, old) == 0, "futimens");
    if (way == 1) require(utimensat(AT_FDCWD, path, old, 0) == 0, "utimensat");
    if (way == 2) require(utimes(path, older) == 0, "utimes");
    if (way == 3) require(futimes(file, older) == 0, "futimes");
    require(fstat(file, &status) == 0, "fstat");
    printf("%lld ", (long long)status.st_mtime);
    require(close(file) == 0 && stat(path, &status) == 0, "close");
    printf("%lld\n", (long long)status.st_mtime);
  }
}

// A descriptor that comes back by a socket, and those of temporary files.
static void with_socket(const char* path) {
  int pair[2];
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
  const int file = opened(path);
  char byte = 'x';
  char room[CMSG_SPACE(sizeof file)] = {0};
  struct iovec one = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(header), &file, sizeof file);
  require(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1, "message");
  int other = -1;
  memcpy(&other, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof other);
  see_each_other(file, other);
  require(close(file) == 0, "close");
  const int again = open(path, O_RDWR);
  see_each_other(again, other);
  require(close(other) == 0 && close(again) == 0, "close");
}

static void temporary(const char* path) {
  char name[600];
  snprintf(name, sizeof name, "%s.XXXXXX.dat", path);
  const int other = mkstemps(name, 4);
  require(other >= 0 && write(other, "--------", 8) == 8, "mkstemps");
  const int file = open(name, O_RDWR);
  see_each_other(file, other);
  require(unlink(name) == 0 && close(opened(path)) == 0, "close");
}

// A child that no handler of fork sees.
static void with_bare_fork(const char* path) {
  const int file = opened(path);
  fflush(stdout);
  const pid_t child = _Fork();
  if (child == 0) _exit(write(file, "child ", 6) == 6 ? 0 : 1);
  require(waitpid(child, NULL, 0) == child && write(file, "parent ", 7) == 7, "write");
  require(close(file) == 0, "close");
}

// By the C library's functions and by bare system calls in turn.
static void bare_calls(const char* path) {
  char got[16] = "";
  struct iovec one = {got, 4};
  struct stat status;
  for (int way = 0; way < 16; ++way) {
    const int file = opened(path);
    require(pwrite(file, "ours", 4, 40) == 4 && lseek(file, 40, SEEK_SET) == 40, "pwrite");
    long result = 0;
    memset(got, 0, sizeof got);
    if (way == 0) result = syscall(SYS_read, file, got, 4);
    if (way == 1) result = syscall(SYS_pread64, file, got, 4, 40L);
    if (way == 2) result = syscall(SYS_readv, file, &one, 1);
    if (way == 3) result = syscall(SYS_write, file, "bare", 4);
    if (way == 4) result = syscall(SYS_pwrite64, file, "bare", 4, 40L);
    if (way == 5) result = syscall(SYS_lseek, file, 0L, SEEK_END);
    if (way == 6) result = syscall(SYS_ftruncate, file, 42L);
    if (way == 7) result = syscall(SYS_truncate, path, 42L);
    if (way == 8) result = syscall(SYS_fsync, file);
    if (way == 9) result = syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0);
    if (way == 9) printf("%lld ", (long long)status.st_size);
    if (way == 10) result = syscall(SYS_copy_file_range, file, NULL, file, &(off_t){900}, 4L, 0);
    int other = -1;
    if (way == 11) other = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
    if (way == 12) other = (int)syscall(SYS_dup, file);
    if (way == 13) other = (int)syscall(SYS_fcntl, file, F_DUPFD, 100L);
    if (way == 14) other = (int)syscall(SYS_dup3, file, 101, 0);
    if (way == 15) {
      const char* mapped = (const char*)syscall(SYS_mmap, 0L, 60L, PROT_READ, MAP_SHARED, file, 0L);
      require(mapped != MAP_FAILED && memcmp(mapped + 40, "ours", 4) == 0, "mmap");
      require(pwrite(file, "seen", 4, 44) == 4 && memcmp(mapped + 44, "seen", 4) == 0, "mapped");
    }
    require(result >= 0, "bare call");
    if (other >= 0) see_each_other(file, other);
    const off_t at = lseek(file, 0, SEEK_CUR);
    require(pread(file, got + 8, 4, 40) >= 0, "pread");
    printf("%d %ld %lld %.4s %.4s\n", way, result, (long long)at, got, got + 8);
    if (other >= 0) {
      require(close(file) == 0, "close");
      const int again = open(path, O_RDWR);
      see_each_other(again, other);
      require(close(other) == 0 && close(again) == 0, "close");
    } else {
      require(syscall(SYS_close, file) == 0, "close");
    }
  }
}

static void by_aio(const char* path) {
  const int file = opened(path);
  char got[8] = "";
  struct aiocb request = {.aio_fildes = file, .aio_buf = got, .aio_nbytes = 7, .aio_offset = 693};
  struct aiocb* all[] = {&request};
  require(aio_read(&request) == 0 && aio_suspend((const struct aiocb**)all, 1, NULL) == 0,
          "aio_read");
  printf("%d %zd %s\n", aio_error(&request), aio_return(&request), got);
  require(close(file) == 0, "close");
  const int again = open(path, O_RDWR);
  require(pwrite(again, "changed", 7, 693) == 7, "pwrite");
  request.aio_fildes = again;
  request.aio_lio_opcode = LIO_READ;
  require(lio_listio(LIO_WAIT, all, 1, NULL) == 0, "lio_listio");
  printf("%zd %s\n", aio_return(&request), got);
  require(close(again) == 0, "close");
}

static void by_dprintf(const char* path) {
  const int file = opened(path);
  require(dprintf(file, "formatted %d ", 7) == 12, "dprintf");
  require(write(file, "written ", 8) == 8 && close(file) == 0, "write");
}

// Nothing is buffered from then on.
static void by_rings(const char* path) {
  const int file = opened(path);
  long settings[15] = {0};  // struct io_uring_params
  const int ring = (int)syscall(SYS_io_uring_setup, 1L, settings);
  if (ring >= 0) close(ring);
  require(write(file, "seen", 4) == 4, "write");
  struct stat status;
  require(syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) == 0, "stat");
  printf("%lld\n", (long long)status.st_size);
  require(close(file) == 0, "close");
}

static void cloned(const char* path) {
  const int file = opened(path);
  const int other = open("/dev/null", O_RDWR);
  require(ioctl(other, FICLONE, file) == -1, "FICLONE");
  require(close(other) == 0 && close(file) == 0, "close");
}

// The C library closes the descriptor without the program's close, and it is reused.
static void with_fdopen(const char* path) {
  const int file = opened(path);
  FILE* stream = fdopen(file, "w");
  fputs("stream ", stream);
  require(fclose(stream) == 0, "fclose");
  const int again = open(path, O_WRONLY);
  require(again == file, "open");
  for (int i = 0; i < 3; ++i)
    require(write(again, "again ", 6) == 6, "write");
  require(close(again) == 0, "close");
}

// Without closing, and with the kernel's position where the program has it.
static void with_exec(const char* path) {
  const int file = opened(path);
  require(dup2(file, 0) == 0, "dup2");
  require(lseek(0, 693, SEEK_SET) == 693, "lseek");
  execl("/bin/sh", "sh", "-c", "cat; wc -c <\"$0\"", path, (char*)NULL);
}

static void with_system(const char* path) {
  char command[600];
  snprintf(command, sizeof command, "wc -c <%s", path);
  opened(path);
  fflush(stdout);
  require(system(command) == 0, "system");
}

// The child ends in its parent's memory.
static void with_vfork(const char* path) {
  require(close(opened(path)) == 0, "close");
  const pid_t child = vfork();
  if (child == 0) _exit(3);
  int status = 0;
  require(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3, "waitpid");
  const int again = open(path, O_WRONLY);
  for (int i = 0; i < 3; ++i)
    require(write(again, "again ", 6) == 6, "write");
  require(close(again) == 0, "close");
}

static void with_exit(const char* path) {
  opened(path);
  _exit(0);
}

// The file's size is limited: which call reports that?
static void limited(const char* path) {
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {300, 300};
  require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  ssize_t moved = 0;
  for (int i = 0; i < 100 && moved >= 0; ++i)
    moved = write(file, "0123456789", 10);
  const int at_write = moved < 0 ? errno : 0;
  const int at_close = close(file) != 0 ? errno : 0;
  FILE* stream = fopen(path, "w");
  for (int i = 0; i < 100; ++i)
    fputs("0123456789", stream);
  printf("%d %d %d\n", at_write == EFBIG, at_close == EFBIG,
         fclose(stream) == EOF && errno == EFBIG);
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    void (*run)(const char* path);
  } all[] = {{"calls", calls},
             {"stdio", stdio},
             {"fork", with_fork},
             {"forks", with_forks_of_threads},
             {"_Fork", with_bare_fork},
             {"dup", with_dup},
             {"twice", opened_twice},
             {"beside", opened_beside_others},
             {"inherited", opened_beside_inherited},
             {"after", opened_after_others},
             {"cut", cut_by_another},
             {"sizes", sizes},
             {"times", times},
             {"socket", with_socket},
             {"temporary", temporary},
             {"cloned", cloned},
             {"bare", bare_calls},
             {"aio", by_aio},
             {"dprintf", by_dprintf},
             {"rings", by_rings},
             {"fdopen", with_fdopen},
             {"exec", with_exec},
             {"system", with_system},
             {"exit", with_exit},
             {"vfork", with_vfork},
             {"limited", limited}};
  for (size_t i = 0; count == 3 && i < sizeof all / sizeof all[0]; ++i) {
    if (strcmp(arguments[1], all[i].name) != 0) continue;
    all[i].run(arguments[2]);
    return 0;
  }
  return 2;
}
