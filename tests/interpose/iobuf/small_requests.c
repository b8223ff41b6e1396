// Programs unaware of buffering: small_requests WHAT FILE. Their output and FILE must not depend on
// it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
             {"dup", with_dup},
             {"twice", opened_twice},
             {"fdopen", with_fdopen},
             {"exec", with_exec},
             {"system", with_system},
             {"exit", with_exit},
             {"vfork", with_vfork},
             {"limited", limited},
             {"forks", with_forks_of_threads},
             {"beside", opened_beside_others},
             {"inherited", opened_beside_inherited},
             {"after", opened_after_others}};
  for (size_t i = 0; count == 3 && i < sizeof all / sizeof all[0]; ++i) {
    if (strcmp(arguments[1], all[i].name) != 0) continue;
    all[i].run(arguments[2]);
    return 0;
  }
  return 2;
}
