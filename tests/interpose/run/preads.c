// A program that knows nothing of Ferry and reads with pread (reading.h). What it prints and finds
// must be the same with ferryd and without.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reading.h"

// ---- what is read ------------------------------------------------------------------------------

static void at_random(void) {
  const int descriptor = open_served();
  unsigned char* data = malloc(100000);
  unsigned int state = 1;
  for (int i = 0; i < 5000; ++i) {
    const long offset = next_random(&state) % (sizes[0] + 5000);
    const long bytes = next_random(&state) % (i % 10 == 0 ? 100000 : 5000);
    const long wanted = offset >= sizes[0]          ? 0
                        : bytes < sizes[0] - offset ? bytes
                                                    : sizes[0] - offset;
    errno = 77;
    CHECK(pread(descriptor, data, (size_t)bytes, offset) == wanted);
    CHECK(errno == 77);
    CHECK(is_of(0, data, wanted, offset));
  }
  CHECK(lseek(descriptor, 0, SEEK_CUR) == 0);
  CHECK(read(descriptor, data, 1000) == 1000 && is_of(0, data, 1000, 0));
  CHECK(lseek(descriptor, 0, SEEK_CUR) == 1000);
  free(data);
  close(descriptor);
}

static void edges(void) {
  const int descriptor = open_served();
  const long size = sizes[0];
  unsigned char data[64];
  errno = 77;
  CHECK(pread(descriptor, data, 0, 0) == 0);
  CHECK(pread(descriptor, data, 64, size) == 0);
  CHECK(pread(descriptor, data, 64, size + 1) == 0);
  CHECK(pread(descriptor, data, 64, size - 3) == 3);
  CHECK(is_of(0, data, 3, size - 3));
  CHECK(pread(descriptor, data, 1, size - 1) == 1);
  CHECK(pread(descriptor, data, 64, LONG_MAX - 64) == 0);
  CHECK(errno == 77);
  CHECK(pread(descriptor, data, 64, -1) == -1 && errno == EINVAL);
  CHECK(pread(descriptor, data, 64, LONG_MIN) == -1 && errno == EINVAL);
  errno = 77;
  const ssize_t at_the_end_of_numbers = pread(descriptor, data, 64, LONG_MAX - 1);
  printf("%zd %d\n", at_the_end_of_numbers, errno);
  CHECK(pread(-1, data, 1, 0) == -1 && errno == EBADF);
  CHECK(pread(1000000, data, 1, 0) == -1 && errno == EBADF);
  CHECK(close(descriptor) == 0);
  CHECK(pread(descriptor, data, 1, 0) == -1 && errno == EBADF);
}

static void vectors(void) {
  const int descriptor = open_served();
  unsigned char first[100], second[3000], third[50];
  const struct iovec all[4] = {
      {first, sizeof first}, {NULL, 0}, {second, sizeof second}, {third, sizeof third}};
  const long total = 3150;
  for (int i = 0; i < 20; ++i) {
    const long offset = i * 1111;
    memset(second, 0, sizeof second);
    const ssize_t got = i % 3 == 0   ? preadv(descriptor, all, 4, offset)
                        : i % 3 == 1 ? preadv2(descriptor, all, 4, offset, 0)
                                     : preadv2(descriptor, all, 4, offset, RWF_HIPRI);
    CHECK(got == total);
    CHECK(is_of(0, first, 100, offset) && is_of(0, second, 3000, offset + 100) &&
          is_of(0, third, 50, offset + 3100));
  }
  CHECK(preadv(descriptor, all, 4, sizes[0] - 150) == 150);
  CHECK(is_of(0, first, 100, sizes[0] - 150) && is_of(0, second, 50, sizes[0] - 50));
  CHECK(preadv(descriptor, all, 0, 0) == 0);
  volatile int wrong = -1;  // unknown to the compiler
  CHECK(preadv(descriptor, all, wrong, 0) == -1 && errno == EINVAL);
  wrong = 1025;
  CHECK(preadv(descriptor, all, wrong, 0) == -1 && errno == EINVAL);
  CHECK(preadv(descriptor, all, 4, -1) == -1 && errno == EINVAL);
  CHECK(preadv2(descriptor, all, 1, -1, 0) == 100);  // at the position
  CHECK(lseek(descriptor, 0, SEEK_CUR) == 100);
  volatile size_t few = 50;  // unknown to the compiler: the checked call
  CHECK(pread(descriptor, first, few, 5) == 50 && is_of(0, first, 50, 5));
  close(descriptor);
}

// ---- descriptors that become other files -------------------------------------------------------

static void used_again(const char* kind) {
  const int descriptor = open_served();
  int other = open(paths[1], O_RDONLY | O_CLOEXEC);
  int now_other = descriptor;
  CHECK(other > descriptor);
  FILE* stream = NULL;
  if (strcmp(kind, "dup2") == 0) {
    CHECK(dup2(other, descriptor) == descriptor);
  } else if (strcmp(kind, "dup3") == 0) {
    CHECK(dup3(other, descriptor, O_CLOEXEC) == descriptor);
  } else if (strcmp(kind, "syscall_dup3") == 0) {
    CHECK(syscall(SYS_dup3, other, descriptor, O_CLOEXEC) == descriptor);
  } else if (strcmp(kind, "freopen") == 0) {
    stream = fdopen(descriptor, "r");
    CHECK(stream != NULL && freopen(paths[1], "r", stream) == stream);
    now_other = fileno(stream);
  } else if (strcmp(kind, "freopen64") == 0) {
    stream = fdopen(descriptor, "r");
    CHECK(stream != NULL && freopen64(paths[1], "r", stream) == stream);
    now_other = fileno(stream);
  } else {
    if (strcmp(kind, "close") == 0) {
      CHECK(close(descriptor) == 0);
    } else if (strcmp(kind, "fclose") == 0) {
      stream = fdopen(descriptor, "r");
      CHECK(stream != NULL && fclose(stream) == 0);
      stream = NULL;
    } else if (strcmp(kind, "close_range") == 0) {
      CHECK(close_range((unsigned)descriptor, ~0U, 0) == 0);
    } else if (strcmp(kind, "closefrom") == 0) {
      closefrom(descriptor);
    } else if (strcmp(kind, "syscall_close") == 0) {
      CHECK(syscall(SYS_close, descriptor) == 0);
    } else if (strcmp(kind, "syscall_close_range") == 0) {
      CHECK(syscall(SYS_close_range, descriptor, ~0U, 0) == 0);
    } else {
      CHECK(!"a kind");
    }
    close(other);
    // The number again, by a call inside the C library, and then by one of the program's own.
    stream = fopen(paths[1], "r");
    CHECK(stream != NULL && fileno(stream) == descriptor);
    must_be(descriptor, 1);
    CHECK(fclose(stream) == 0);
    stream = NULL;
    now_other = open(paths[1], O_RDONLY | O_CLOEXEC);
    CHECK(now_other == descriptor);
  }
  must_be(now_other, 1);
  if (stream != NULL) {
    CHECK(fclose(stream) == 0);
  } else {
    CHECK(close(now_other) == 0);
  }
  CHECK(open(paths[0], O_RDONLY | O_CLOEXEC) == descriptor);
  must_be(descriptor, 0);
  warm(descriptor);
  // And a copy keeps what the number had.
  const int copy = dup(descriptor);
  CHECK(dup2(copy, descriptor) == descriptor);
  must_be(descriptor, 0);
  must_be(copy, 0);
}

// daemon() makes /dev/null of it, inside the C library.
static void as_standard_input(void) {
  int ends_of_pipe[2];
  CHECK(pipe(ends_of_pipe) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(0);
    CHECK(open_served() == 0);
    CHECK(daemon(1, 0) == 0);
    char data;
    if (pread(0, &data, 1, 0) == 0) data = 'y';
    _exit(write(ends_of_pipe[1], &data, 1) == 1 ? 0 : 1);
  }
  close(ends_of_pipe[1]);
  char data = 'n';
  CHECK(read(ends_of_pipe[0], &data, 1) == 1 && data == 'y');
  CHECK(read(ends_of_pipe[0], &data, 1) == 0);  // it has ended
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// ---- processes and threads ---------------------------------------------------------------------

static void finish_child(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void forks(void) {
  const int descriptor = open_served();
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    must_be(descriptor, 0);
    warm(descriptor);
    must_be(descriptor, 0);
    const int other = open(paths[1], O_RDONLY);
    CHECK(dup2(other, descriptor) == descriptor);
    must_be(descriptor, 1);
    exit(0);
  }
  must_be(descriptor, 0);
  finish_child(child);
  must_be(descriptor, 0);
  if (waits) CHECK(is_hit(descriptor, 0));
  // A child of vfork has this memory, but its own descriptors.
  child = vfork();
  if (child == 0) {
    close(descriptor);
    dup2(1, descriptor);
    closefrom(3);
    _exit(0);
  }
  finish_child(child);
  must_be(descriptor, 0);
  warm(descriptor);
  must_be(descriptor, 0);
}

static atomic_int ends;
static int shared_number;

static void* read_shared(void* unused) {
  unsigned char data[500];
  unsigned int state = 1;
  long wrong = 0;
  while (!atomic_load(&ends)) {
    const long offset = next_random(&state) % (sizes[0] - 500);
    if (pread(shared_number, data, sizeof data, offset) != (ssize_t)sizeof data) ++wrong;
    if (!is_of(0, data, sizeof data, offset) && !is_of(1, data, sizeof data, offset)) ++wrong;
  }
  (void)unused;
  return (void*)wrong;
}

// dup2 replaces a file under its readers, all at once. Whoever comes after it reads the new one.
static void replaced_under_readers(void) {
  pthread_t readers[3];
  int files[2] = {open(paths[0], O_RDONLY), open(paths[1], O_RDONLY)};
  warm(files[0]);
  shared_number = dup(files[0]);
  for (int i = 0; i < 3; ++i)
    CHECK(pthread_create(&readers[i], NULL, read_shared, NULL) == 0);
  for (int i = 0; i < 3000; ++i) {
    unsigned char data[100];
    CHECK(dup2(files[i % 2], shared_number) == shared_number);
    for (int look = 0; look < 6; ++look) {
      CHECK(pread(shared_number, data, sizeof data, i) == (ssize_t)sizeof data);
      CHECK(is_of(i % 2, data, sizeof data, i));
    }
  }
  atomic_store(&ends, 1);
  for (int i = 0; i < 3; ++i) {
    void* wrong = NULL;
    CHECK(pthread_join(readers[i], &wrong) == 0 && wrong == NULL);
  }
}

static volatile sig_atomic_t signals;
static int of_handler;

static void on_signal(int number) {
  unsigned char data[300];
  const long offset = (signals * 997L) % (sizes[0] - 300);
  const int saved = errno;
  if (pread(of_handler, data, sizeof data, offset) != (ssize_t)sizeof data ||
      !is_of(0, data, sizeof data, offset))
    _exit(3);
  errno = saved;
  ++signals;
  (void)number;
}

static void in_handlers(void) {
  const int descriptor = open(paths[0], O_RDONLY);
  of_handler = descriptor;
  begin_signals(on_signal);
  unsigned char data[20000];
  unsigned int state = 3;
  const double end = now() + 20;
  for (int i = 0; i < 20000 || (signals < 1000 && now() < end); ++i) {
    const long offset = next_random(&state) % (sizes[0] - (long)sizeof data);
    CHECK(pread(descriptor, data, sizeof data, offset) == (ssize_t)sizeof data);
    CHECK(is_of(0, data, sizeof data, offset));
  }
  end_signals();
  CHECK(signals > 0);
  warm(descriptor);
}

static void* read_cancelled(void* descriptor) {
  char data;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  return pread(*(int*)descriptor, &data, 1, 0) == 1 ? NULL : descriptor;
}

static void cancelled(void) {
  int descriptor = open_served();
  pthread_t thread;
  void* result = NULL;
  CHECK(pthread_create(&thread, NULL, read_cancelled, &descriptor) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  must_be(descriptor, 0);
}

// ---- files that change -------------------------------------------------------------------------

static void written(void) {
  const int descriptor = open_served();
  const int writer = open(paths[0], O_RDWR);
  CHECK(writer >= 0);
  for (int i = 0; i < 3000; ++i) {
    unsigned char byte = (unsigned char)(i * 7), back = 0;
    CHECK(pwrite(writer, &byte, 1, 5) == 1);
    CHECK(pread(descriptor, &back, 1, 5) == 1 && back == byte);
  }
  unsigned char first = byte_at(0, 5);
  CHECK(pwrite(writer, &first, 1, 5) == 1);
  CHECK(ftruncate(writer, sizes[0] + 1) == 0);
  CHECK(pread(descriptor, &first, 1, sizes[0]) == 1 && first == 0);
  CHECK(ftruncate(writer, sizes[0]) == 0);
  CHECK(pread(descriptor, &first, 1, sizes[0]) == 0);
  close(writer);
  must_be(descriptor, 0);
  for (int i = 0; i < 1100; ++i)  // it is offered again after 1000 reads
    must_be(descriptor, 0);
  warm(descriptor);
}

// What is not open for reading alone is not served, and what has become direct no more.
static void not_served(void) {
  const int both = open(paths[1], O_RDWR);
  must_be(both, 1);
  CHECK(!is_hit(both, 0));
  const int descriptor = open_served();
  if (fcntl(descriptor, F_SETFL, O_DIRECT) == 0) {
    char data[100];
    errno = 0;
    const ssize_t got = pread(descriptor, data, sizeof data, 1);  // not aligned
    CHECK((got == -1 && errno == EINVAL) || !is_hit(descriptor, 0));
  }
  const int third = open_served();
  CHECK(unshare(CLONE_FILES) == 0);
  CHECK(!is_hit(third, 0));
  must_be(third, 0);
}

// A process in a sandbox asks nobody for anything.
static void sandboxed(void) {
  const int descriptor = open_served();
  struct sock_filter all_may[1] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog filter = {1, all_may};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
  CHECK(!is_hit(descriptor, 0));
  must_be(descriptor, 0);
}

// It gives all numbers to a new file, that of standard error too.
static void closed_error(int by_stream) {
  const int descriptor = open_served();
  must_be(descriptor, 0);
  if (by_stream) {
    CHECK(fclose(stderr) == 0);
  } else {
    CHECK(close(2) == 0);
  }
  closefrom(3);
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s.new", paths[0]);
  for (int i = 0; i < 30; ++i)
    if (open(path, O_RDWR | O_CREAT, 0600) < 0) _exit(1);
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  take_arguments(arguments);
  const char* what = arguments[1];
  if (strcmp(what, "random") == 0)
    at_random();
  else if (strcmp(what, "edges") == 0)
    edges();
  else if (strcmp(what, "vectors") == 0)
    vectors();
  else if (strncmp(what, "again-", 6) == 0)
    used_again(what + 6);
  else if (strcmp(what, "daemon") == 0)
    as_standard_input();
  else if (strcmp(what, "forks") == 0)
    forks();
  else if (strcmp(what, "replaced") == 0)
    replaced_under_readers();
  else if (strcmp(what, "handlers") == 0)
    in_handlers();
  else if (strcmp(what, "cancelled") == 0)
    cancelled();
  else if (strcmp(what, "written") == 0)
    written();
  else if (strcmp(what, "not-served") == 0)
    not_served();
  else if (strcmp(what, "sandboxed") == 0)
    sandboxed();
  else if (strcmp(what, "closed-error") == 0)
    closed_error(1);
  else if (strcmp(what, "other-error") == 0)
    closed_error(0);
  else
    return 2;
  printf("%s is right\n", what);
  return 0;
}
