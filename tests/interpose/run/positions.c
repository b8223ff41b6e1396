// A program that knows nothing of Ferry and reads with read (reading.h): what it finds must be the
// same with ferryd and without. Its measure is a second descriptor of the same file, which it opens
// and uses by bare system calls, so that no library takes part.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <limits.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "reading.h"

enum { data_max = 100000, record = 500 };

static unsigned char ours[data_max], theirs[data_max];
static int both[2];  // ours, and the measure

static long bare(long number, long a, long b, long c) {
  return syscall(number, a, b, c);
}

static void open_both(void) {
  both[0] = open(paths[0], O_RDONLY);
  both[1] = (int)bare(SYS_openat, AT_FDCWD, (long)paths[0], O_RDONLY);
  CHECK(both[0] >= 0 && both[1] >= 0);
}

static void close_both(void) {
  CHECK(close(both[0]) == 0);
  CHECK(bare(SYS_close, both[1], 0, 0) == 0);
}

// Reads from the beginning until reads are served, or often.
static void warm_reads(int descriptor) {
  const double end = now() + 20;
  for (int i = 0; waits || i < 3; ++i) {
    char data[100];
    for (int k = 0; k < 400; ++k) {
      CHECK(lseek(descriptor, 0, SEEK_SET) == 0);
      CHECK(read(descriptor, data, sizeof data) == sizeof data);
    }
    const long before = read_calls();
    CHECK(read(descriptor, data, sizeof data) == sizeof data);
    if (read_calls() - before == 1) break;  // the second look itself
    CHECK(now() < end);
  }
  CHECK(lseek(descriptor, 0, SEEK_SET) == 0);
}

// What both say of the position, and what they read from there.
static void must_agree(void) {
  const ssize_t got = read(both[0], ours, record);
  CHECK(got >= 0 && got == bare(SYS_read, both[1], (long)theirs, record));
  CHECK(memcmp(ours, theirs, (size_t)got) == 0);
  CHECK(lseek(both[0], 0, SEEK_CUR) == bare(SYS_lseek, both[1], 0, SEEK_CUR));
}

// ---- each call that uses the position, or shares it --------------------------------------------

static void finish(pid_t child) {
  int status = 0;
  CHECK(child >= 0);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// `words` as a program that reads `both[0]` as its standard input; its first bytes must be those at
// the position, which moves for us, too.
static void by_program(int kind) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  char* const words[] = {"dd", "bs=50", "count=1", "status=none", NULL};
  pid_t child = -1;
  if (kind == 0 || kind == 7) {
    child = fork();
  } else if (kind == 1) {
    child = vfork();
  } else if (kind == 2) {
    child = _Fork();
  } else if (kind == 3) {
    child = (pid_t)bare(SYS_clone, SIGCHLD, 0, 0);
  } else if (kind == 6) {
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    child = (pid_t)bare(SYS_clone3, (long)&arguments, sizeof arguments, 0);
  }
  if (kind == 4) {
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, both[0], 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0);
    CHECK(posix_spawnp(&child, "dd", &actions, NULL, words, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
  } else if (kind == 5) {
    char command[100];
    snprintf(command, sizeof command, "dd bs=50 count=1 status=none <&%d >&%d", both[0], ends[1]);
    CHECK(fcntl(ends[1], F_SETFD, 0) == 0);
    CHECK(system(command) == 0);
  } else if (child == 0) {
    dup2(both[0], 0);
    dup2(ends[1], 1);
    if (kind == 7) execveat(AT_FDCWD, "/bin/dd", words, environ, 0);
    execvp("dd", words);
    _exit(1);
  }
  if (kind != 5) finish(child);
  CHECK(read(ends[0], ours, 50) == 50);
  CHECK(bare(SYS_read, both[1], (long)theirs, 50) == 50);
  CHECK(memcmp(ours, theirs, 50) == 0);
  close(ends[0]);
  close(ends[1]);
}

// Through a socket and back.
static void by_message(int several) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char byte = 'x';
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct iovec one = {&byte, 1};
  struct mmsghdr message;
  memset(&message, 0, sizeof message);
  message.msg_hdr.msg_iov = &one;
  message.msg_hdr.msg_iovlen = 1;
  message.msg_hdr.msg_control = &control;
  message.msg_hdr.msg_controllen = sizeof control;
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&control.header), &both[0], sizeof(int));
  CHECK(several ? sendmmsg(ends[0], &message, 1, 0) == 1
                : sendmsg(ends[0], &message.msg_hdr, 0) == 1);
  CHECK(recvmsg(ends[1], &message.msg_hdr, 0) == 1);
  int copy = -1;
  memcpy(&copy, CMSG_DATA(&control.header), sizeof(int));
  CHECK(bare(SYS_read, copy, (long)ours, 70) == 70);
  CHECK(bare(SYS_read, both[1], (long)theirs, 70) == 70);
  CHECK(memcmp(ours, theirs, 70) == 0);
  close(copy);
  close(ends[0]);
  close(ends[1]);
}

// To a file, by each of the calls that move data inside the kernel.
static void by_kernel(int kind) {
  FILE* to = tmpfile();
  int ends[2];
  CHECK(to != NULL && pipe(ends) == 0);
  long got = 0;
  if (kind == 0) {
    got = sendfile(fileno(to), both[0], NULL, 300);
    CHECK(pread(fileno(to), ours, 300, 0) == got);
  } else if (kind == 1) {
    loff_t at = 0;
    got = copy_file_range(both[0], NULL, fileno(to), &at, 300, 0);
    if (got < 0) {  // not between these file systems
      got = read(both[0], ours, 300);
    } else {
      CHECK(pread(fileno(to), ours, 300, 0) == got);
    }
  } else {
    got = splice(both[0], NULL, ends[1], NULL, 300, 0);
    CHECK(got == 0 || read(ends[0], ours, 300) == got);
  }
  CHECK(bare(SYS_read, both[1], (long)theirs, 300) == got);
  CHECK(memcmp(ours, theirs, (size_t)got) == 0);
  fclose(to);
  close(ends[0]);
  close(ends[1]);
}

// Another descriptor of the same open file moves the position.
static void by_copy(int kind) {
  int copy = -1;
  if (kind == 0) {
    copy = dup(both[0]);
  } else if (kind == 1) {
    copy = fcntl(both[0], F_DUPFD_CLOEXEC, 100);
  } else if (kind == 2) {
    copy = dup2(both[0], 90);
  } else {
    copy = (int)bare(SYS_dup, both[0], 0, 0);
  }
  CHECK(copy >= 0);
  CHECK(read(copy, ours, 80) == bare(SYS_read, both[1], (long)theirs, 80));
  CHECK(memcmp(ours, theirs, 80) == 0);
  must_agree();
  CHECK(lseek(copy, 0, SEEK_CUR) == bare(SYS_lseek, both[1], 0, SEEK_CUR));
  CHECK(close(copy) == 0);
}

// glibc closes a directory's descriptor unseen; its number becomes a copy of the file.
static void by_unseen_close(void) {
  const int folder = open("/", O_RDONLY);
  DIR* entries = fdopendir(folder);
  CHECK(entries != NULL && closedir(entries) == 0);
  const int copy = dup(both[0]);
  CHECK(copy == folder);
  for (int i = 0; i < 300; ++i) {
    CHECK(lseek(copy, i * 10, SEEK_SET) == i * 10);
    CHECK(read(copy, ours, 80) == 80 && is_of(0, ours, 80, i * 10));
    CHECK(lseek(both[0], 0, SEEK_CUR) == i * 10 + 80);
  }
  CHECK(close(copy) == 0);
  CHECK(bare(SYS_lseek, both[1], 299 * 10 + 80, SEEK_SET) > 0);
}

static void by_stream(void) {
  FILE* stream = fdopen(both[0], "r");
  CHECK(stream != NULL);
  setvbuf(stream, NULL, _IONBF, 0);
  CHECK(fread(ours, 1, 60, stream) == 60);
  CHECK(bare(SYS_read, both[1], (long)theirs, 60) == 60);
  CHECK(memcmp(ours, theirs, 60) == 0);
  must_agree();
  CHECK(fclose(stream) == 0);
  CHECK(bare(SYS_close, both[1], 0, 0) == 0);
}

static void shares(const char* kind) {
  for (int which = 0; which < 8; ++which) {
    open_both();
    warm_reads(both[0]);
    for (int i = 0; i < 3; ++i)
      must_agree();
    if (strcmp(kind, "program") == 0) {
      by_program(which);
    } else if (strcmp(kind, "message") == 0) {
      by_message(which % 2);
    } else if (strcmp(kind, "kernel") == 0) {
      by_kernel(which % 3);
    } else if (strcmp(kind, "copy") == 0) {
      by_copy(which % 4);
    } else if (strcmp(kind, "unseen") == 0) {
      by_unseen_close();
    } else if (strcmp(kind, "stream") == 0) {
      by_stream();
      continue;
    } else if (strcmp(kind, "other") == 0) {
      int left = 0, wanted = 0;
      struct iovec one = {ours, 40};
      struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_len = 10};
      switch (which) {
        case 0:
          CHECK(ioctl(both[0], FIONREAD, &left) == 0);
          CHECK(bare(SYS_ioctl, both[1], FIONREAD, (long)&wanted) == 0 && left == wanted);
          break;
        case 1:
          CHECK(preadv2(both[0], &one, 1, -1, 0) == 40);
          CHECK(bare(SYS_read, both[1], (long)theirs, 40) == 40);
          CHECK(memcmp(ours, theirs, 40) == 0);
          break;
        case 2:
          CHECK(bare(SYS_read, both[0], (long)ours, 40) == 40);
          CHECK(bare(SYS_read, both[1], (long)theirs, 40) == 40);
          CHECK(memcmp(ours, theirs, 40) == 0);
          break;
        case 3:
          CHECK(bare(SYS_lseek, both[0], 40, SEEK_CUR) == bare(SYS_lseek, both[1], 40, SEEK_CUR));
          break;
        case 4:  // the lock begins at the position; a child sees where
          CHECK(fcntl(both[0], F_SETLK, &lock) == 0);
          {
            const pid_t child = fork();
            if (child == 0) {
              struct flock found = {
                  .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = LONG_MAX};
              if (fcntl(both[0], F_GETLK, &found) != 0) _exit(1);
              _exit(found.l_type == F_RDLCK && found.l_start == 3 * record ? 0 : 2);
            }
            finish(child);
          }
          break;
        default:
          CHECK(close_range((unsigned)both[0], (unsigned)both[0], CLOSE_RANGE_CLOEXEC) == 0);
          break;
      }
    } else {
      CHECK(!"a kind");
    }
    must_agree();
    must_agree();
    close_both();
  }
}

// ---- calls at random ---------------------------------------------------------------------------

static void one_call(unsigned int* state) {
  const unsigned int what = next_random(state) % 12;
  const size_t bytes = next_random(state) % (what == 0 ? data_max : 3000);
  errno = 77;
  long got = 0, wanted = 0;
  if (what < 6) {
    got = read(both[0], ours, bytes);
    const int error = errno;
    wanted = bare(SYS_read, both[1], (long)theirs, (long)bytes);
    CHECK(error == 77);
    CHECK(got == wanted && memcmp(ours, theirs, (size_t)got) == 0);
    return;
  }
  if (what == 6) {
    const struct iovec here[2] = {{ours, bytes / 3}, {ours + bytes / 3, bytes - bytes / 3}};
    const struct iovec there = {theirs, bytes};
    got = readv(both[0], here, 2);
    wanted = bare(SYS_readv, both[1], (long)&there, 1);
    CHECK(got == wanted && memcmp(ours, theirs, (size_t)got) == 0);
    return;
  }
  if (what == 7) {
    const long at = next_random(state) % sizes[0];
    got = pread(both[0], ours, bytes, at);
    CHECK(got == (long)bytes || got == sizes[0] - at);
    CHECK(is_of(0, ours, got, at));
    return;
  }
  const int whence =
      next_random(state) % 40 == 0 ? (int)(next_random(state) % 7) : (int)(next_random(state) % 3);
  long offset = (long)(next_random(state) % (unsigned)sizes[0]);
  if (whence == SEEK_CUR) offset = (long)(next_random(state) % 4000) - 2000;
  if (whence == SEEK_END) offset = -offset;
  if (next_random(state) % 100 == 0) offset = (long)(next_random(state) % 9) - 4 + sizes[0];
  if (next_random(state) % 200 == 0) offset = LONG_MAX - (long)(next_random(state) % 3);
  if (next_random(state) % 200 == 0) offset = LONG_MIN + (long)(next_random(state) % 3);
  got = lseek(both[0], offset, whence);
  const int error = errno;
  errno = 77;
  wanted = bare(SYS_lseek, both[1], offset, whence);
  CHECK(got == wanted && error == errno);
}

static void random_calls(void) {
  unsigned int state = 7;
  for (int file = 0; file < 60; ++file) {
    open_both();
    if (file % 3 != 0) warm_reads(both[0]);
    for (int i = 0; i < 400; ++i)
      one_call(&state);
    must_agree();
    close_both();
  }
}

// Another process writes to the file, so reads go between the cache and the kernel.
static void changing_file(void) {
  open_both();
  warm_reads(both[0]);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 300; ++i) {
      const int writer = open(paths[0], O_WRONLY);
      if (writer < 0) _exit(1);
      const unsigned char byte = byte_at(0, i);
      if (pwrite(writer, &byte, 1, i) != 1) _exit(1);
      close(writer);
      usleep(200);
    }
    _exit(0);
  }
  close_both();  // the child has it, too
  unsigned int state = 9;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    open_both();
    for (int i = 0; i < 1000; ++i)
      one_call(&state);
    close_both();
  }
  CHECK(status == 0);
}

// ---- threads and signals -----------------------------------------------------------------------

static atomic_int times_read[1 << 10];
static atomic_int gives_back;

static void* read_records(void* unused) {
  unsigned char data[record];
  while (1) {
    const ssize_t got = read(both[0], data, record);
    if (got < record) break;
    long offset = -1;
    for (long i = 0; i < sizes[0] / record && offset < 0; ++i)
      if (is_of(0, data, record, i * record)) offset = i;
    CHECK(offset >= 0);
    atomic_fetch_add(&times_read[offset], 1);
    if (offset == 250 && atomic_load(&gives_back)) CHECK(close(dup(both[0])) == 0);
    if (offset % 100 == 0) sched_yield();
  }
  (void)unused;
  return NULL;
}

// Threads share the file: each record is read once, also where the position goes back to the kernel
// meanwhile.
static void shared_by_threads(void) {
  for (int turn = 0; turn < 20; ++turn) {
    both[0] = open(paths[0], O_RDONLY);
    if (turn % 4 != 3) warm_reads(both[0]);
    atomic_store(&gives_back, turn % 2);
    memset(times_read, 0, sizeof times_read);
    pthread_t readers[3];
    for (int i = 0; i < 3; ++i)
      CHECK(pthread_create(&readers[i], NULL, read_records, NULL) == 0);
    for (int i = 0; i < 3; ++i)
      CHECK(pthread_join(readers[i], NULL) == 0);
    for (long i = 0; i < sizes[0] / record; ++i)
      CHECK(atomic_load(&times_read[i]) == 1);
    CHECK(close(both[0]) == 0);
  }
}

static volatile sig_atomic_t signals;

static void on_signal(int number) {
  const int saved = errno;
  unsigned char data[10];
  if (read(both[0], data, 10) != 10) _exit(3);
  if (lseek(both[0], -10, SEEK_CUR) < 0) _exit(4);
  if (signals % 500 == 499) close(dup(both[0]));
  errno = saved;
  ++signals;
  (void)number;
}

// A handler reads, and goes back: the interrupted calls do not see that.
static void in_handlers(void) {
  open_both();
  for (int turn = 0; turn < 15; ++turn) {
    warm_reads(both[0]);
    CHECK(bare(SYS_lseek, both[1], 0, SEEK_SET) == 0);
    begin_signals(on_signal);
    // The last bytes are not reached, so that the handler can read.
    for (long at = 0; at < sizes[0] - 2 * record; at += record) {
      CHECK(read(both[0], ours, record) == record);
      CHECK(is_of(0, ours, record, at));
    }
    end_signals();
    close_both();
    open_both();
  }
  CHECK(signals > 0);
}

// ---- what is no such file ----------------------------------------------------------------------

static void other_files(void) {
  char data[100];
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(read(-1, data, 1) == -1 && errno == EBADF);
  CHECK(lseek(-1, 0, SEEK_SET) == -1 && errno == EBADF);
  CHECK(lseek(ends[0], 0, SEEK_CUR) == -1 && errno == ESPIPE);
  for (int i = 0; i < 1000; ++i) {
    CHECK(write(ends[1], "abc", 3) == 3);
    CHECK(read(ends[0], data, 100) == 3);
  }
  const int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_RDONLY);
  const int info = open("/proc/self/stat", O_RDONLY), folder = open("/", O_RDONLY);
  for (int i = 0; i < 1000; ++i) {
    CHECK(read(zero, data, 100) == 100 && data[99] == 0);
    CHECK(read(null, data, 100) == 0);
    CHECK(lseek(info, 0, SEEK_SET) == 0 && read(info, data, 10) == 10);
    CHECK(read(folder, data, 100) == -1 && errno == EISDIR);
  }
  const int both_ways = open(paths[1], O_RDWR);
  for (long at = 0; at < 1000 * 100; at += 100) {
    CHECK(read(both_ways, data, 100) == 100);
    CHECK(is_of(1, (unsigned char*)data, 100, at));
  }
  open_both();
  warm_reads(both[0]);
  CHECK(read(both[0], data, 0) == 0);
  CHECK(read(both[0], data, 90) == 90);
  CHECK(close(both[0]) == 0);
  // The number again, by a call inside the C library.
  FILE* stream = fopen(paths[1], "r");
  CHECK(stream != NULL && fileno(stream) == both[0]);
  CHECK(read(both[0], data, 100) == 100 && is_of(1, (unsigned char*)data, 100, 0));
  CHECK(fclose(stream) == 0);
  CHECK(read(both[0], data, 1) == -1 && errno == EBADF);
  CHECK(lseek(both[0], 0, SEEK_CUR) == -1 && errno == EBADF);
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  take_arguments(arguments);
  const char* what = arguments[1];
  if (strncmp(what, "shares-", 7) == 0)
    shares(what + 7);
  else if (strcmp(what, "calls") == 0)
    random_calls();
  else if (strcmp(what, "changing") == 0)
    changing_file();
  else if (strcmp(what, "threads") == 0)
    shared_by_threads();
  else if (strcmp(what, "handlers") == 0)
    in_handlers();
  else if (strcmp(what, "others") == 0)
    other_files();
  else
    return 2;
  printf("%s is right\n", what);
  return 0;
}
