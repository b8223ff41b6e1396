// Many threads use the same handles, and each its own, while they end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { readers = 3, rounds = 100, block_bytes = 4096, blocks = 4 };

static ferry_file* shared;
static atomic_int reads;

// Reads until the handle has ended. What it reads meanwhile is right, and of that file.
static void* reads_until_closed(void* unused) {
  unsigned char memory[block_bytes];
  for (uint64_t i = 0;; ++i) {
    const uint64_t offset = i % blocks * block_bytes;
    const int64_t got = ferry_pread(shared, memory, block_bytes, offset);
    if (got == -EBADF) return unused;
    CHECK_EQUAL(got, block_bytes);
    CHECK(is_filled(memory, block_bytes, offset));
    atomic_fetch_add(&reads, 1);
  }
}

// Takes and gives back the places of handles.
static void* opens_and_closes(void* unused) {
  unsigned char memory[block_bytes];
  for (int i = 0; i < rounds; ++i) {
    ferry_file* own = NULL;
    ferry_future* future = NULL;
    CHECK_EQUAL(ferry_open(&own, "zeros", O_RDONLY, 0), 0);
    CHECK_EQUAL(ferry_pread_async(&future, own, memory, block_bytes, 0), 0);
    CHECK_EQUAL(ferry_close(own), 0);
    CHECK_EQUAL(ferry_future_result(future), block_bytes);
    CHECK_EQUAL(memory[i], 0);
    CHECK_EQUAL(ferry_future_free(future), 0);
    CHECK_EQUAL(ferry_future_test(future), -EBADF);
  }
  return unused;
}

static void make(const char* path, int zeros) {
  static unsigned char memory[blocks * block_bytes];
  ferry_file* file = NULL;
  if (!zeros) fill(memory, sizeof memory, 0);
  CHECK_EQUAL(ferry_open(&file, path, O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_pwrite(file, memory, sizeof memory, 0), sizeof memory);
  CHECK_EQUAL(ferry_close(file), 0);
}

static void files(void) {
  make("zeros", 1);
  make("shared", 0);
  CHECK_EQUAL(ferry_open(&shared, "shared", O_RDONLY, 0), 0);
  pthread_t threads[readers + 1];
  for (int i = 0; i < readers; ++i)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, reads_until_closed, NULL), 0);
  CHECK_EQUAL(pthread_create(&threads[readers], NULL, opens_and_closes, NULL), 0);
  while (atomic_load(&reads) < rounds)
    usleep(100);
  CHECK_EQUAL(ferry_close(shared), 0);
  for (int i = 0; i <= readers; ++i)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  CHECK_EQUAL(ferry_unlink("zeros"), 0);
  CHECK_EQUAL(ferry_unlink("shared"), 0);
}

// A thread that is cancelled stays until the call that it is in has returned. It ends by itself
// here: the address sanitizer does not follow what pthread_cancel() does to a stack.
static void* reads_while_cancelled(void* file) {
  unsigned char memory[block_bytes];
  CHECK_EQUAL(pthread_cancel(pthread_self()), 0);
  CHECK_EQUAL(ferry_pread(file, memory, block_bytes, 0), block_bytes);
  int state = -1;
  CHECK_EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state), 0);
  CHECK_EQUAL(state, PTHREAD_CANCEL_ENABLE);  // as before the call
  return file;
}

static void a_cancelled_thread(void) {
  make("zeros", 1);
  ferry_file* file = NULL;
  CHECK_EQUAL(ferry_open(&file, "zeros", O_RDONLY, 0), 0);
  pthread_t thread;
  void* result = NULL;
  CHECK_EQUAL(pthread_create(&thread, NULL, reads_while_cancelled, file), 0);
  CHECK_EQUAL(pthread_join(thread, &result), 0);
  CHECK(result == file);
  CHECK_EQUAL(ferry_close(file), 0);
  CHECK_EQUAL(ferry_unlink("zeros"), 0);
}

static atomic_int running;
static atomic_int may_end;

static int waits(ferry_thread* thread, void* user) {
  (void)thread;
  atomic_store(&running, 1);
  while (!atomic_load(&may_end))
    usleep(100);
  return *(int*)user;
}

static void* runs(void* runtime) {
  int result = 7;
  CHECK_EQUAL(ferry_runtime_run(runtime, waits, &result), 7);
  return NULL;
}

static void a_busy_runtime(void) {
  ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  options.device_threads = 1;
  options.arena_bytes = 1 << 20;
  ferry_runtime* runtime = NULL;
  CHECK_EQUAL(ferry_runtime_create(&runtime, &options), 0);
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, runs, runtime), 0);
  while (!atomic_load(&running))
    usleep(100);
  CHECK_EQUAL(ferry_runtime_destroy(runtime), -EBUSY);
  CHECK_EQUAL(ferry_runtime_threads(runtime), 1);
  atomic_store(&may_end, 1);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  CHECK_EQUAL(ferry_runtime_destroy(runtime), 0);
}

int main(void) {
  enter_scratch();
  files();
  a_cancelled_thread();
  a_busy_runtime();
  leave_scratch();
  return 0;
}
