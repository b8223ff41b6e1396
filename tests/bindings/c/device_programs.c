// Device programs in C, with every placement.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"

enum { piece_bytes = 64 << 10, pieces = 8, threads = 2, files_max = 16 };

struct job {
  unsigned char* memory;  // a piece for each thread, in device memory
  uint32_t placement;
  int failed_thread;
};

// Inside a program a failed check ends the process, too: the test has failed.
static int writes_and_reads(ferry_thread* thread, void* user) {
  const struct job* job = user;
  const int64_t index = ferry_device_index(thread);
  CHECK_EQUAL(ferry_device_count(thread), threads);
  CHECK_EQUAL(ferry_device_use(thread, job->placement), 0);
  unsigned char* memory = job->memory + index * piece_bytes;
  char path[16];
  snprintf(path, sizeof path, "of-%d", (int)index);
  const int file = ferry_device_open(thread, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file > 0);
  for (uint64_t offset = 0; offset < (uint64_t)pieces * piece_bytes; offset += piece_bytes) {
    fill(memory, piece_bytes, offset);
    CHECK_EQUAL(ferry_device_pwrite(thread, file, memory, piece_bytes, (int64_t)offset),
                piece_bytes);
  }
  CHECK_EQUAL(ferry_device_flush(thread, file), 0);
  CHECK_EQUAL(ferry_device_fdatasync(thread, file), 0);
  CHECK_EQUAL(ferry_device_fsync(thread, file), 0);
  CHECK_EQUAL(ferry_device_prefetch(thread, file, 0, piece_bytes), 0);
  for (int i = 0; i < 3; ++i) {
    CHECK_EQUAL(ferry_device_read(thread, file, memory, piece_bytes), piece_bytes);
    CHECK(is_filled(memory, piece_bytes, (uint64_t)i * piece_bytes));
  }
  CHECK_EQUAL(ferry_device_write(thread, file, "!", 1), 1);  // at offset 3 * piece_bytes
  unsigned char outside[100];                                // not device memory
  CHECK_EQUAL(ferry_device_pread(thread, file, outside, 100, 3 * piece_bytes), 100);
  CHECK_EQUAL(outside[0], '!');
  CHECK(is_filled(outside + 1, 99, 3 * piece_bytes + 1));

  const ferry_vector vector[] = {{memory, 10}, {outside, 20}};
  CHECK_EQUAL(ferry_device_preadv(thread, file, vector, 2, 1000), 30);
  CHECK(is_filled(memory, 10, 1000) && is_filled(outside, 20, 1010));
  CHECK_EQUAL(ferry_device_pwritev(thread, file, vector, 2, 1000), 30);

  ferry_pending pending[2];
  CHECK_EQUAL(ferry_device_pread_async(thread, file, memory, 4096, 0, &pending[0]), 0);
  CHECK_EQUAL(ferry_device_pread_async(thread, file, memory + 4096, 4096, 4096, &pending[1]), 0);
  const int64_t first = ferry_device_wait_any(thread, pending, 2);
  CHECK(first == 0 || first == 1);
  CHECK_EQUAL(ferry_device_ready(thread, &pending[first]), 1);
  CHECK_EQUAL(ferry_device_wait(thread, &pending[0]), 4096);
  CHECK_EQUAL(ferry_device_wait(thread, &pending[1]), 4096);
  CHECK_EQUAL(ferry_device_wait(thread, &pending[1]), 4096);
  CHECK(is_filled(memory, 8192, 0));
  CHECK_EQUAL(ferry_device_pwrite_async(thread, file, memory, 4096, 0, &pending[0]), 0);
  CHECK_EQUAL(ferry_device_wait(thread, &pending[0]), 4096);

  CHECK_EQUAL(ferry_device_ftruncate(thread, file, 5000), 0);
  CHECK_EQUAL(ferry_device_evict(thread, file), 0);
  ferry_device_status status;
  CHECK_EQUAL(ferry_device_fstat(thread, file, &status), 0);
  CHECK_EQUAL((int64_t)status.size_bytes, 5000);
  CHECK_EQUAL(ferry_device_close(thread, file), 0);
  CHECK_EQUAL(ferry_device_close(thread, file), -EBADF);
  CHECK_EQUAL(ferry_device_stat(thread, path, &status), 0);
  CHECK_EQUAL(status.mode, S_IFREG | 0600);
  struct stat known;
  CHECK_EQUAL(stat(path, &known), 0);
  CHECK_EQUAL((int64_t)status.inode, (int64_t)known.st_ino);
  CHECK_EQUAL(status.owner, known.st_uid);
  CHECK_EQUAL(ferry_device_unlink(thread, path), 0);
  CHECK_EQUAL(ferry_device_stat(thread, path, &status), -ENOENT);
  return 0;
}

// As the options have it: in the cache, and no more open files than that.
static int keeps_to_options(ferry_thread* thread, void* user) {
  (void)user;
  if (ferry_device_index(thread) != 0) return 0;
  int files[files_max];
  for (int i = 0; i < files_max; ++i) {
    files[i] = ferry_device_open(thread, "many", O_RDWR | O_CREAT, 0600);
    CHECK(files[i] > 0);
  }
  CHECK_EQUAL(ferry_device_open(thread, "many", O_RDWR, 0), -ENFILE);
  CHECK_EQUAL(ferry_device_pwrite(thread, files[0], "x", 1, 0), 1);
  for (int i = 0; i < files_max; ++i)
    CHECK_EQUAL(ferry_device_close(thread, files[i]), 0);
  return ferry_device_unlink(thread, "many");
}

// A thread has 63 transfers in flight, and waits for each.
static int fills_its_calls(ferry_thread* thread, void* user) {
  enum { most = 63 };
  const struct job* job = user;
  if (ferry_device_index(thread) != 0) return 0;
  CHECK_EQUAL(ferry_device_use(thread, FERRY_PLACEMENT_HOST), 0);
  const int file = ferry_device_open(thread, "crowd", O_RDWR | O_CREAT, 0600);
  CHECK(file > 0);
  CHECK_EQUAL(ferry_device_pwrite(thread, file, job->memory, 4096, 0), 4096);
  ferry_pending pending[most + 1];
  for (int i = 0; i < most; ++i)
    CHECK_EQUAL(ferry_device_pread_async(thread, file, job->memory, 64, i, &pending[i]), 0);
  CHECK_EQUAL(ferry_device_pread_async(thread, file, job->memory, 64, 0, &pending[most]), -EAGAIN);
  for (int i = 0; i < most; ++i)
    CHECK_EQUAL(ferry_device_wait(thread, &pending[i]), 64);
  CHECK_EQUAL(ferry_device_close(thread, file), 0);
  return ferry_device_unlink(thread, "crowd");
}

// The second thread gets hold of a transfer of the first one.
static int shares_a_transfer(ferry_thread* thread, void* user) {
  static ferry_pending shared;
  static atomic_int step;
  const struct job* job = user;
  if (ferry_device_index(thread) == 1) {
    while (atomic_load(&step) != 1)
      usleep(100);
    CHECK_EQUAL(ferry_device_ready(thread, &shared), -EINVAL);
    CHECK_EQUAL(ferry_device_wait(thread, &shared), -EINVAL);
    atomic_store(&step, 2);
    return 0;
  }
  CHECK_EQUAL(ferry_device_use(thread, FERRY_PLACEMENT_HOST), 0);
  const int file = ferry_device_open(thread, "shared", O_RDWR | O_CREAT, 0600);
  CHECK_EQUAL(ferry_device_pwrite(thread, file, job->memory, 4096, 0), 4096);
  CHECK_EQUAL(ferry_device_pread_async(thread, file, job->memory, 4096, 0, &shared), 0);
  atomic_store(&step, 1);
  while (atomic_load(&step) != 2)
    usleep(100);
  CHECK_EQUAL(ferry_device_wait(thread, &shared), 4096);
  CHECK_EQUAL(ferry_device_close(thread, file), 0);
  return ferry_device_unlink(thread, "shared");
}

static int fails_on_one(ferry_thread* thread, void* user) {
  const struct job* job = user;
  return ferry_device_index(thread) == job->failed_thread ? -EILSEQ : 0;
}

static int leaves_a_file_open(ferry_thread* thread, void* user) {
  (void)user;
  if (ferry_device_index(thread) != 0) return 0;
  const int file = ferry_device_open(thread, "limited", O_RDWR | O_CREAT, 0600);
  return ferry_device_pwrite(thread, file, "x", 1, 100000) == 1 ? 0 : 1;
}

// Data that no file can take is lost at the end, and not in silence.
static void loses_data(ferry_runtime* runtime) {
  struct rlimit before;
  CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &before), 0);
  CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
  CHECK_EQUAL(ferry_runtime_run(runtime, leaves_a_file_open, NULL), 0);
  const struct rlimit limit = {4096, before.rlim_max};
  CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
  CHECK_EQUAL(ferry_runtime_shutdown(runtime, 1000), -EAGAIN);
  CHECK_TEXT("limited");
  CHECK_EQUAL(ferry_runtime_destroy(runtime), -EIO);
  CHECK_TEXT("limited");
  CHECK_EQUAL(ferry_runtime_destroy(runtime), -EBADF);
  CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
  CHECK_EQUAL(ferry_unlink("limited"), 0);
}

static int makes_calls_late(ferry_thread* thread, void* user) {
  (void)user;
  return ferry_device_open(thread, "late", O_RDONLY, 0);
}

int main(void) {
  enter_scratch();
  ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  options.device_threads = threads;
  options.arena_bytes = 2 << 20;
  options.cache_bytes = 1 << 20;
  options.page_bytes = 4096;
  options.files_max = files_max;
  options.placement = FERRY_PLACEMENT_COMPUTE;
  options.engine = FERRY_ENGINE_THREADS;
  options.ignore_profile = 1;
  ferry_runtime* runtime = NULL;
  CHECK_EQUAL(ferry_runtime_create(&runtime, &options), 0);
  CHECK_EQUAL(ferry_runtime_threads(runtime), threads);
  CHECK_EQUAL(ferry_runtime_run(runtime, keeps_to_options, NULL), 0);
  ferry_runtime_statistics so_far = FERRY_RUNTIME_STATISTICS_INIT;
  CHECK_EQUAL(ferry_runtime_get_statistics(runtime, &so_far), 0);
  CHECK(so_far.cache_hits + so_far.cache_misses > 0);
  void* memory = NULL;
  CHECK_EQUAL(ferry_runtime_allocate(runtime, &memory, threads * piece_bytes, 0), 0);
  struct job job = {memory, 0, 1};
  for (job.placement = FERRY_PLACEMENT_HOST; job.placement <= FERRY_PLACEMENT_AUTOMATIC;
       ++job.placement) {
    ferry_runtime_statistics before = FERRY_RUNTIME_STATISTICS_INIT;
    ferry_runtime_statistics after = FERRY_RUNTIME_STATISTICS_INIT;
    CHECK_EQUAL(ferry_runtime_get_statistics(runtime, &before), 0);
    CHECK_EQUAL(ferry_runtime_run(runtime, writes_and_reads, &job), 0);
    CHECK_EQUAL(ferry_runtime_get_statistics(runtime, &after), 0);
    const uint64_t lookups =
        after.cache_hits + after.cache_misses - before.cache_hits - before.cache_misses;
    // Which placement it was shows in who looked pages up.
    if (job.placement == FERRY_PLACEMENT_HOST) CHECK_EQUAL((int64_t)lookups, 0);
    if (job.placement == FERRY_PLACEMENT_COMPUTE) CHECK(lookups > 0);
    CHECK(after.calls > before.calls && after.bytes_written > before.bytes_written);
  }
  CHECK_EQUAL(ferry_runtime_run(runtime, fills_its_calls, &job), 0);
  CHECK_EQUAL(ferry_runtime_run(runtime, shares_a_transfer, &job), 0);
  CHECK_EQUAL(ferry_runtime_run(runtime, fails_on_one, &job), -EILSEQ);
  CHECK_EQUAL(ferry_runtime_free(runtime, memory), 0);
  CHECK_EQUAL(ferry_runtime_shutdown(runtime, 1000), 0);
  CHECK_EQUAL(ferry_runtime_run(runtime, makes_calls_late, NULL), -ESHUTDOWN);
  CHECK_EQUAL(ferry_runtime_destroy(runtime), 0);
  CHECK_EQUAL(ferry_runtime_create(&runtime, &options), 0);
  loses_data(runtime);
  leave_scratch();
  return 0;
}
