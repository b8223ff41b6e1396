// What the programs that read under ferryd share. Each is one file, so all here is static.
//   PROGRAM WHAT FIRST SECOND WAIT
// FIRST and SECOND are files of different bytes (byte_at). WAIT is 1 where reads of FIRST are to be
// served: then the program waits until they are, at most 20 s.
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char* paths[2];
static long sizes[2];
static int waits;

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "line %d: %s (%d)\n", __LINE__, #condition, errno); \
      _exit(1);                                                           \
    }                                                                     \
  } while (0)

static unsigned char byte_at(int file, long offset) {
  return (unsigned char)((offset * 31 + offset / 251 + (file ? 7 : 0)) & 0xff);
}

static int is_of(int file, const unsigned char* data, long bytes, long offset) {
  for (long i = 0; i < bytes; ++i)
    if (data[i] != byte_at(file, offset + i)) return 0;
  return 1;
}

static unsigned int next_random(unsigned int* state) {
  *state = *state * 1103515245u + 12345u;
  return *state >> 8;
}

// System calls of this thread that read, by the kernel's account.
static long read_calls(void) {
  char text[512];
  const int account = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/io", O_RDONLY);
  CHECK(account >= 0);
  const long got = syscall(SYS_pread64, account, text, sizeof text - 1, 0L);
  CHECK(got > 0);
  text[got] = '\0';
  CHECK(syscall(SYS_close, account) == 0);
  const char* count = strstr(text, "syscr: ");
  CHECK(count != NULL);
  return atol(count + 7);
}

static int is_hit(int descriptor, long offset) {
  char data[100];
  const long before = read_calls();
  CHECK(pread(descriptor, data, sizeof data, offset) > 0);
  return read_calls() - before == 1;  // one call is the second look
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Until ferryd has all of FIRST that the test reads.
static void warm(int descriptor) {
  const double end = now() + 20;
  for (long offset = 0; offset < sizes[0]; offset += 4096) {
    for (int i = 0; !is_hit(descriptor, offset); ++i) {
      if (!waits && i == 5) break;
      CHECK(!waits || now() < end);
      if (waits) sched_yield();
    }
  }
}

static int open_served(void) {
  const int descriptor = open(paths[0], O_RDONLY | O_CLOEXEC);
  CHECK(descriptor >= 0);
  warm(descriptor);
  return descriptor;
}

static void must_be(int descriptor, int file) {
  unsigned char data[1000];
  for (int i = 0; i < 20; ++i) {
    const long offset = i * 700;
    CHECK(pread(descriptor, data, sizeof data, offset) == (ssize_t)sizeof data);
    CHECK(is_of(file, data, sizeof data, offset));
  }
}

// SIGALRM every 100 us, until end_signals().
static void begin_signals(void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, NULL);
}

static void end_signals(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
}

static void take_arguments(char** arguments) {
  paths[0] = arguments[2];
  paths[1] = arguments[3];
  waits = atoi(arguments[4]);
  for (int i = 0; i < 2; ++i) {
    struct stat status;
    CHECK(stat(paths[i], &status) == 0);
    sizes[i] = status.st_size;
  }
}
