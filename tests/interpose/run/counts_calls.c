// Another preloaded library, as tracers are: it counts calls and passes them on to the next one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static long preads, closes;

ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) {
  static ssize_t (*next)(int, void*, size_t, off_t);
  if (next == NULL) next = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  ++preads;
  return next(descriptor, data, bytes, offset);
}

int close(int descriptor) {
  static int (*next)(int);
  if (next == NULL) next = (int (*)(int))dlsym(RTLD_NEXT, "close");
  ++closes;
  return next(descriptor);
}

__attribute__((destructor)) static void tell(void) {
  if (getenv("COUNTS_CALLS") != NULL) fprintf(stderr, "%ld preads, %ld closes\n", preads, closes);
}
