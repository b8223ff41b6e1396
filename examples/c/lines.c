// ferry-lines [--placement N] FILE: counts lines as `wc -l` does, with a device program in C. FILE
// may be a URI.
//
//   cc -std=c11 -Wall lines.c $(pkg-config --cflags --libs ferry) -o ferry-lines
//
// Each device thread reads every n-th piece of the file, and asks for its next piece before it
// counts the present one.
#include <errno.h>
#include <fcntl.h>
#include <ferry.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { piece_bytes = 1 << 20 };

struct count {
  const char* path;
  char* memory;     // two pieces for each thread, in device memory
  uint64_t* lines;  // of each thread
};

static uint64_t lines_in(const char* text, int64_t bytes) {
  uint64_t lines = 0;
  const char* end = text + bytes;
  while ((text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
    ++text;
    ++lines;
  }
  return lines;
}

// The device program: 0, or a negative errno.
static int count_lines(ferry_thread* thread, void* user) {
  const struct count* count = user;
  const int64_t index = ferry_device_index(thread);
  const int64_t step_bytes = ferry_device_count(thread) * piece_bytes;
  char* now = count->memory + index * 2 * piece_bytes;
  char* next = now + piece_bytes;
  const int file = ferry_device_open(thread, count->path, O_RDONLY, 0);
  if (file < 0) return file;

  int64_t offset = index * piece_bytes;
  ferry_pending pending;
  int error = ferry_device_pread_async(thread, file, now, piece_bytes, offset, &pending);
  while (error == 0) {
    const int64_t got = ferry_device_wait(thread, &pending);
    if (got < 0) error = (int)got;
    if (got <= 0) break;
    offset += step_bytes;
    error = ferry_device_pread_async(thread, file, next, piece_bytes, offset, &pending);
    count->lines[index] += lines_in(now, got);
    char* const counted = now;
    now = next;
    next = counted;
  }
  const int closed = ferry_device_close(thread, file);
  return error != 0 ? error : closed;
}

// Exit status 2, with one line.
static int fail(const char* what, int error, const char* why) {
  fprintf(stderr, "ferry-lines: %s: %s\n", what, why[0] != '\0' ? why : strerror(-error));
  return 2;
}

static int count_file(ferry_runtime* runtime, const char* path, uint64_t* lines) {
  const int64_t threads = ferry_runtime_threads(runtime);
  if (threads < 0) return (int)threads;
  struct count count = {path, NULL, calloc((size_t)threads, sizeof(uint64_t))};
  if (count.lines == NULL) return -ENOMEM;
  void* memory = NULL;
  int error = ferry_runtime_allocate(runtime, &memory, (uint64_t)threads * 2 * piece_bytes, 0);
  if (error == 0) {
    count.memory = memory;
    error = ferry_runtime_run(runtime, count_lines, &count);
  }
  for (int64_t i = 0; i < threads; ++i)
    *lines += count.lines[i];
  free(count.lines);
  return error;
}

int main(int argc, char** argv) {
  ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  options.arena_bytes = UINT64_C(256) << 20;
  if (argc == 4 && strcmp(argv[1], "--placement") == 0) {
    char* end = NULL;
    const long number = strtol(argv[2], &end, 10);
    if (end == argv[2] || *end != '\0' || number < 0 || number > FERRY_PLACEMENT_AUTOMATIC) {
      fprintf(stderr, "ferry-lines: --placement %s: from 0 to 3\n", argv[2]);
      return 2;
    }
    options.placement = (uint32_t)number;
    options.cache_bytes = UINT64_C(64) << 20;
  } else if (argc != 2) {
    fprintf(stderr, "usage: ferry-lines [--placement N] FILE\n");
    return 2;
  }
  const char* path = argv[argc - 1];
  ferry_runtime* runtime = NULL;
  int error = ferry_runtime_create(&runtime, &options);
  if (error < 0) return fail("no device", error, ferry_error_text());
  uint64_t lines = 0;
  error = count_file(runtime, path, &lines);
  if (error < 0) return fail(path, error, "");
  error = ferry_runtime_destroy(runtime);
  if (error < 0) return fail("the device", error, ferry_error_text());
  printf("%" PRIu64 "\n", lines);
  return 0;
}
