// Checks of test programs in C, which end the program, and a scratch folder.
#ifndef FERRY_TESTS_CHECK_H
#define FERRY_TESTS_CHECK_H

#include <ferry.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Of the library that a program tests.
#ifndef CHECK_ERROR_TEXT
#define CHECK_ERROR_TEXT ferry_error_text
#endif

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              CHECK_ERROR_TEXT());                                                            \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

#define CHECK_EQUAL(got, want)                                                                  \
  do {                                                                                          \
    const int64_t check_got = (got);                                                            \
    const int64_t check_want = (want);                                                          \
    if (check_got != check_want) {                                                              \
      fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 " (last error: %s)\n", __FILE__, \
              __LINE__, #got, check_got, check_want, CHECK_ERROR_TEXT());                       \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

#define CHECK_TEXT(part)                                                         \
  do {                                                                           \
    if (strstr(CHECK_ERROR_TEXT(), part) == NULL) {                              \
      fprintf(stderr, "%s:%d: \"%s\" is not in: %s\n", __FILE__, __LINE__, part, \
              CHECK_ERROR_TEXT());                                               \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

// Enters a new folder, which leave_scratch() removes.
static char scratch_folder[] = "/tmp/ferry-c-XXXXXX";

static inline void enter_scratch(void) {
  CHECK(mkdtemp(scratch_folder) != NULL);
  CHECK_EQUAL(chdir(scratch_folder), 0);
}

static inline void leave_scratch(void) {
  CHECK_EQUAL(chdir("/"), 0);
  CHECK_EQUAL(rmdir(scratch_folder), 0);
}

// The byte that tests write at an offset of a file.
static inline unsigned char byte_at(uint64_t offset_bytes) {
  return (unsigned char)(offset_bytes * 31 + (offset_bytes >> 12));
}

static inline void fill(unsigned char* memory, uint64_t bytes, uint64_t offset_bytes) {
  for (uint64_t i = 0; i < bytes; ++i)
    memory[i] = byte_at(offset_bytes + i);
}

static inline int is_filled(const unsigned char* memory, uint64_t bytes, uint64_t offset_bytes) {
  for (uint64_t i = 0; i < bytes; ++i)
    if (memory[i] != byte_at(offset_bytes + i)) return 0;
  return 1;
}

#endif
