// What C programs get wrong is an errno and a line of text, and nothing else happens.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

static unsigned char memory[4096];

static void null_handles(void) {
  ferry_future* future = NULL;
  void* allocated = NULL;
  CHECK_EQUAL(ferry_open(NULL, "x", O_RDONLY, 0), -EINVAL);
  CHECK_TEXT("file is NULL");
  CHECK_EQUAL(ferry_close(NULL), -EINVAL);
  CHECK_TEXT("the handle is NULL");
  CHECK_EQUAL(ferry_pread(NULL, memory, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_pwrite(NULL, memory, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_pread_async(&future, NULL, memory, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_read_parts(&future, NULL, 1), -EINVAL);
  CHECK_EQUAL(ferry_read_parts(NULL, NULL, 0), -EINVAL);
  CHECK_EQUAL(ferry_future_wait(NULL, 0), -EINVAL);
  CHECK_EQUAL(ferry_future_test(NULL), -EINVAL);
  CHECK_EQUAL(ferry_future_result(NULL), -EINVAL);
  CHECK_EQUAL(ferry_future_cancel(NULL), -EINVAL);
  CHECK_EQUAL(ferry_future_free(NULL), -EINVAL);
  CHECK_EQUAL(ferry_future_wait_any(NULL, 1), -EINVAL);
  CHECK_EQUAL(ferry_future_wait_any(&future, 0), -EINVAL);
  CHECK_EQUAL(ferry_size(NULL), -EINVAL);
  CHECK_EQUAL(ferry_truncate(NULL, 0), -EINVAL);
  CHECK_EQUAL(ferry_sync(NULL), -EINVAL);
  CHECK_EQUAL(ferry_copy(NULL, 0, NULL, 0, 1), -EINVAL);
  CHECK_EQUAL(ferry_stat(NULL, NULL), -EINVAL);
  CHECK_EQUAL(ferry_unlink(NULL), -EINVAL);
  CHECK_EQUAL(ferry_rename("x", NULL), -EINVAL);
  CHECK_EQUAL(ferry_layout_get("x", NULL), -EINVAL);
  CHECK_EQUAL(ferry_layout_set("x", NULL), -EINVAL);
  CHECK_EQUAL(ferry_explain(NULL, NULL, 0), -EINVAL);
  CHECK_EQUAL(ferry_explain(".", NULL, 1), -EINVAL);
  CHECK_EQUAL(ferry_runtime_create(NULL, NULL), -EINVAL);
  CHECK_EQUAL(ferry_runtime_destroy(NULL), -EINVAL);
  CHECK_EQUAL(ferry_runtime_run(NULL, NULL, NULL), -EINVAL);
  CHECK_EQUAL(ferry_runtime_shutdown(NULL, 0), -EINVAL);
  CHECK_EQUAL(ferry_runtime_allocate(NULL, &allocated, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_runtime_free(NULL, memory), -EINVAL);
  CHECK_EQUAL(ferry_runtime_threads(NULL), -EINVAL);
  CHECK_EQUAL(ferry_runtime_get_statistics(NULL, NULL), -EINVAL);
  CHECK_EQUAL(ferry_device_index(NULL), -EINVAL);
  CHECK_EQUAL(ferry_device_open(NULL, "x", O_RDONLY, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_pread(NULL, 1, memory, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_wait(NULL, NULL), -EINVAL);
}

// Closes the descriptors of a file behind Ferry's back.
static void close_descriptors_of(const char* path) {
  char target[4096];
  char* real = realpath(path, NULL);
  CHECK(real != NULL);
  int closed = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(name, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    if (strcmp(target, real) == 0 && close(fd) == 0) ++closed;
  }
  free(real);
  CHECK(closed > 0);
}

static void files(void) {
  ferry_file* file = (ferry_file*)memory;  // is set to NULL
  CHECK_EQUAL(ferry_open(&file, "/no/such/file", O_RDONLY, 0), -ENOENT);
  CHECK(file == NULL);
  CHECK_TEXT("/no/such/file");
  CHECK_EQUAL(ferry_open(&file, "/tmp", O_RDONLY, 0), -EISDIR);
  CHECK_EQUAL(ferry_open(&file, "nfs://", O_RDONLY, 0), -EINVAL);
  CHECK_EQUAL(ferry_open(&file, "", O_RDONLY, 0), -ENOENT);
  CHECK_EQUAL(ferry_open(&file, "file", O_RDWR | O_CREAT, 0600), 0);
  CHECK_TEXT("No such file");  // the last failure's, still
  CHECK_EQUAL(ferry_pread(file, NULL, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_pread(file, memory, UINT64_MAX, 0), -EINVAL);
  CHECK_EQUAL(ferry_pread(file, memory, (uint64_t)INT64_MAX + 1, 0), -EINVAL);
  CHECK_TEXT("beyond what a file can have");
  CHECK_EQUAL(ferry_pread(file, memory, 1, UINT64_MAX), -EINVAL);
  CHECK_EQUAL(ferry_pwrite(file, memory, 2, INT64_MAX), -EINVAL);
  CHECK_EQUAL(ferry_truncate(file, UINT64_MAX), -EINVAL);
  ferry_future* future = NULL;
  CHECK_EQUAL(ferry_pread_async(&future, file, memory, UINT64_MAX, 0), -EINVAL);
  CHECK(future == NULL);
  CHECK_EQUAL(ferry_read_parts(&future, (const ferry_part*)memory, UINT64_MAX), -EINVAL);
  // A cast makes a handle of another kind of it, and is found out.
  CHECK_EQUAL(ferry_future_result((ferry_future*)file), -EBADF);
  CHECK_EQUAL(ferry_runtime_destroy((ferry_runtime*)file), -EBADF);
  CHECK_EQUAL(ferry_close(file), 0);
  CHECK_EQUAL(ferry_close(file), -EBADF);
  CHECK_TEXT("the handle has ended");
  CHECK_EQUAL(ferry_pread(file, memory, 1, 0), -EBADF);
  CHECK_EQUAL(ferry_pwrite_async(&future, file, memory, 1, 0), -EBADF);
  // Nor is it the next file's, which has its slot.
  ferry_file* next = NULL;
  CHECK_EQUAL(ferry_open(&next, "file", O_RDONLY, 0), 0);
  CHECK(next != file);
  CHECK_EQUAL(ferry_close(file), -EBADF);
  CHECK_EQUAL(ferry_pwrite(next, memory, 1, 0), -EBADF);  // open for reading
  CHECK_EQUAL(ferry_pwrite_async(&future, next, memory, 1, 0), 0);
  CHECK_EQUAL(ferry_stat("/no/such", &(ferry_path_status){0}), -ENOENT);
  CHECK_EQUAL(ferry_future_part_result(future, 0), -EBADF);
  CHECK_TEXT("part 0");  // its own failure
  CHECK_EQUAL(ferry_future_free(future), 0);
  CHECK_EQUAL(ferry_close(next), 0);
  // An error of the storage's that a handle may have, too.
  CHECK_EQUAL(ferry_open(&next, "file", O_RDONLY, 0), 0);
  close_descriptors_of("file");
  CHECK_EQUAL(ferry_close(next), -EBADF);
  CHECK_TEXT("file: Bad file descriptor");
  CHECK_EQUAL(ferry_close(next), -EBADF);
  CHECK_TEXT("the handle has ended");
  CHECK_EQUAL(ferry_unlink("file"), 0);
}

// Offsets that no file has, as of a negative number, are errors also where nothing would be copied.
static void offsets_of_copies(void) {
  ferry_file* from = NULL;
  ferry_file* to = NULL;
  CHECK_EQUAL(ferry_open(&from, "from", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_open(&to, "to", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_copy(from, (uint64_t)-1, to, 0, 10), -EINVAL);
  CHECK_TEXT("beyond what a file can have");
  CHECK_EQUAL(ferry_copy(from, 0, to, (uint64_t)-1, 10), -EINVAL);
  CHECK_EQUAL(ferry_copy(from, (uint64_t)INT64_MIN, to, 0, 0), -EINVAL);
  CHECK_EQUAL(ferry_copy(from, 1000, to, 0, 10), 0);
  CHECK_EQUAL(ferry_close(from), 0);
  CHECK_EQUAL(ferry_close(to), 0);
  CHECK_EQUAL(ferry_unlink("from"), 0);
  CHECK_EQUAL(ferry_unlink("to"), 0);
}

static void structures(void) {
  struct {
    ferry_layout known;
    uint64_t later;
  } newer = {FERRY_LAYOUT_INIT, 1};
  newer.known.struct_bytes = sizeof newer;
  CHECK_EQUAL(ferry_layout_set(".", &newer.known), -E2BIG);
  newer.later = 0;
  CHECK_EQUAL(ferry_layout_set(".", &newer.known), -EOPNOTSUPP);
  newer.known.struct_bytes = 0;
  CHECK_EQUAL(ferry_layout_set(".", &newer.known), -EINVAL);
  CHECK_TEXT("struct_bytes");
  newer.known.struct_bytes = UINT64_MAX;
  CHECK_EQUAL(ferry_layout_get(".", &newer.known), -EINVAL);
  ferry_layout endless = FERRY_LAYOUT_INIT;
  memset(endless.pool, 'p', sizeof endless.pool);
  CHECK_EQUAL(ferry_layout_set("x", &endless), -EINVAL);
  CHECK_TEXT("pool");
}

static void refused_options(ferry_runtime_options options, int error, const char* text) {
  ferry_runtime* runtime = (ferry_runtime*)memory;
  CHECK_EQUAL(ferry_runtime_create(&runtime, &options), error);
  CHECK(runtime == NULL);
  CHECK_TEXT(text);
}

static void runtime_options(void) {
  const ferry_runtime_options usual = FERRY_RUNTIME_OPTIONS_INIT;
  ferry_runtime_options options = usual;
  options.placement = 4;
  refused_options(options, -EINVAL, "placement");
  options = usual;
  options.engine = 3;
  refused_options(options, -EINVAL, "engine");
  options = usual;
  options.device_cpus = "none";
  refused_options(options, -EINVAL, "device_cpus");
  options = usual;
  options.server_cpus = "99999";
  refused_options(options, -EINVAL, "server_cpus");
  options = usual;
  options.cache_bytes = 1 << 20;
  options.page_bytes = 5000;
  refused_options(options, -EINVAL, "page_bytes");
  options = usual;
  options.files_max = 1 << 20;
  refused_options(options, -EINVAL, "files_max");
  options = usual;
  options.arena_bytes = UINT64_MAX;
  refused_options(options, -ENOMEM, "arena_bytes");
  options = usual;
  options.struct_bytes = 3;
  refused_options(options, -EINVAL, "struct_bytes");
}

static void* calls_on_another_thread(void* thread) {
  CHECK_EQUAL(ferry_device_open(thread, "x", O_RDONLY, 0), -EPERM);
  return NULL;
}

static int does_nothing(ferry_thread* thread, void* user) {
  (void)thread;
  (void)user;
  return 0;
}

struct kept {
  ferry_runtime* runtime;
  ferry_runtime* other;
  void* allocated;
  ferry_thread* thread;
};

// Of a transfer there is one result, even if a later one has its place.
static void waits_for_copies(ferry_thread* thread, int file, void* allocated) {
  ferry_pending first;
  ferry_pending second;
  CHECK_EQUAL(ferry_device_pread_async(thread, file, allocated, 1, 0, &first), 0);
  const ferry_pending copy = first;
  CHECK_EQUAL(ferry_device_wait(thread, &first), 0);
  CHECK_EQUAL(ferry_device_pread_async(thread, file, allocated, 1, 0, &second), 0);
  ferry_pending used = copy;
  CHECK_EQUAL(ferry_device_ready(thread, &used), -EINVAL);
  CHECK_EQUAL(ferry_device_wait_any(thread, &used, 1), -EINVAL);
  CHECK_EQUAL(ferry_device_wait(thread, &used), -EINVAL);
  CHECK_EQUAL(ferry_device_wait(thread, &second), 0);
  CHECK_EQUAL(ferry_device_wait(thread, &first), 0);
  used.opaque[1] = UINT64_MAX;  // a cell that nobody has
  CHECK_EQUAL(ferry_device_wait(thread, &used), -EINVAL);
}

static void makes_calls_in_a_child(ferry_thread* thread) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(ferry_device_open(thread, "file", O_RDONLY, 0) == -EPERM ? 0 : 1);
  int status = -1;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK_EQUAL(status, 0);
}

static int makes_wrong_calls(ferry_thread* thread, void* user) {
  struct kept* kept = user;
  CHECK_EQUAL(ferry_device_open(thread, NULL, O_RDONLY, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_open(thread, "/no/such", O_RDONLY, 0), -ENOENT);
  char path[9000];
  memset(path, 'a', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  CHECK_EQUAL(ferry_device_open(thread, path, O_RDONLY, 0), -ENAMETOOLONG);
  CHECK_EQUAL(ferry_device_pread(thread, -1, memory, 1, 0), -EBADF);
  CHECK_EQUAL(ferry_device_pread(thread, 12345, memory, 1, 0), -EBADF);
  CHECK_EQUAL(ferry_device_pread(thread, 1, NULL, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_use(thread, 17), -EINVAL);
  CHECK_EQUAL(ferry_device_preadv(thread, 1, NULL, 1, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_preadv(thread, 1, NULL, -1, 0), -EINVAL);
  const ferry_vector piece = {memory, 1};
  CHECK_EQUAL(ferry_device_preadv(thread, 1, &piece, INT32_MAX, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_fstat(thread, 1, NULL), -EINVAL);
  ferry_pending none = {{0, 0, 0, 0}};
  CHECK_EQUAL(ferry_device_wait(thread, &none), -EINVAL);
  CHECK_EQUAL(ferry_device_ready(thread, &none), -EINVAL);
  CHECK_EQUAL(ferry_device_wait_any(thread, &none, 1), -EINVAL);
  CHECK_EQUAL(ferry_device_wait_any(thread, &none, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_wait_any(thread, &none, 1000), -EINVAL);
  const int file = ferry_device_open(thread, "file", O_RDWR | O_CREAT, 0600);
  CHECK(file > 0);
  CHECK_EQUAL(ferry_device_pread(thread, file, memory, 1, -1), -EINVAL);
  CHECK_EQUAL(ferry_device_pwrite(thread, file, memory, 1, INT64_MAX), -EINVAL);
  CHECK_EQUAL(ferry_device_pwrite(thread, file, memory, UINT64_MAX, 0), -EINVAL);
  CHECK_EQUAL(ferry_device_pwrite_async(thread, file, memory, UINT64_MAX, 0, &none), -EINVAL);
  waits_for_copies(thread, file, kept->allocated);
  CHECK_EQUAL(ferry_device_ftruncate(thread, file, -1), -EINVAL);
  CHECK_EQUAL(ferry_device_close(thread, file), 0);
  CHECK_EQUAL(ferry_device_unlink(thread, "file"), 0);
  CHECK_EQUAL(ferry_runtime_run(kept->runtime, does_nothing, NULL), -EDEADLK);
  CHECK_EQUAL(ferry_runtime_run(kept->other, does_nothing, NULL), -EDEADLK);
  makes_calls_in_a_child(thread);
  CHECK_EQUAL(ferry_runtime_destroy(kept->runtime), -EBUSY);
  pthread_t other;
  CHECK_EQUAL(pthread_create(&other, NULL, calls_on_another_thread, thread), 0);
  CHECK_EQUAL(pthread_join(other, NULL), 0);
  kept->thread = thread;
  return 0;
}

static void a_runtime(void) {
  struct kept kept = {NULL, NULL, NULL, NULL};
  ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  options.device_threads = 1;
  options.arena_bytes = 1 << 20;
  options.placement = FERRY_PLACEMENT_AUTOMATIC;
  // The size of an older release, which knew nothing of what comes behind device_threads.
  options.struct_bytes = (uint64_t)((char*)&options.server_threads - (char*)&options);
  options.engine = 77;
  CHECK_EQUAL(ferry_runtime_create(&kept.runtime, &options), 0);
  CHECK_EQUAL(ferry_runtime_threads(kept.runtime), 1);
  CHECK_EQUAL(ferry_runtime_run(kept.runtime, NULL, NULL), -EINVAL);
  CHECK_EQUAL(ferry_runtime_create(&kept.other, &options), 0);
  CHECK_EQUAL(ferry_runtime_allocate(kept.runtime, &kept.allocated, 4096, 0), 0);
  CHECK_EQUAL(ferry_runtime_run(kept.runtime, makes_wrong_calls, &kept), 0);
  CHECK_EQUAL(ferry_runtime_destroy(kept.other), 0);
  // After its program the thread is none.
  CHECK_EQUAL(ferry_device_open(kept.thread, "x", O_RDONLY, 0), -EPERM);

  void* allocated = memory;
  CHECK_EQUAL(ferry_runtime_allocate(kept.runtime, &allocated, UINT64_MAX, 0), -ENOMEM);
  CHECK(allocated == NULL);
  CHECK_EQUAL(ferry_runtime_allocate(kept.runtime, &allocated, 0, 0), -EINVAL);
  CHECK_EQUAL(ferry_runtime_allocate(kept.runtime, &allocated, 64, 3), -EINVAL);
  CHECK_EQUAL(ferry_runtime_free(kept.runtime, memory), -EINVAL);
  CHECK_EQUAL(ferry_runtime_allocate(kept.runtime, &allocated, 64, 64), 0);
  CHECK_EQUAL((int64_t)((uintptr_t)allocated % 64), 0);
  CHECK_EQUAL(ferry_runtime_free(kept.runtime, allocated), 0);
  CHECK_EQUAL(ferry_runtime_free(kept.runtime, allocated), -EINVAL);

  // An older release's statistics: what it does not know stays untouched.
  ferry_runtime_statistics statistics = FERRY_RUNTIME_STATISTICS_INIT;
  statistics.struct_bytes = 2 * sizeof(uint64_t);
  statistics.staged_calls = 99;
  CHECK_EQUAL(ferry_runtime_get_statistics(kept.runtime, &statistics), 0);
  CHECK(statistics.calls > 0 && statistics.staged_calls == 99);
  CHECK_EQUAL((int64_t)statistics.struct_bytes, 2 * sizeof(uint64_t));

  CHECK_EQUAL(ferry_runtime_destroy(kept.runtime), 0);
  CHECK_EQUAL(ferry_runtime_destroy(kept.runtime), -EBADF);
  CHECK_EQUAL(ferry_runtime_run(kept.runtime, does_nothing, NULL), -EBADF);
}

static void* has_no_error_yet(void* unused) {
  CHECK(ferry_error_text()[0] == '\0');
  CHECK_EQUAL(ferry_unlink("/no/such/other"), -ENOENT);
  return unused;
}

static void texts(void) {
  CHECK_EQUAL(ferry_unlink("/no/such/mine"), -ENOENT);
  pthread_t other;
  CHECK_EQUAL(pthread_create(&other, NULL, has_no_error_yet, NULL), 0);
  CHECK_EQUAL(pthread_join(other, NULL), 0);
  CHECK_TEXT("mine");
  char path[3000];  // longer than a text may be
  memset(path, 'a', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  CHECK(ferry_unlink(path) < 0);
  CHECK(strlen(ferry_error_text()) > 100);
}

int main(void) {
  enter_scratch();
  CHECK(ferry_error_text()[0] == '\0');
  null_handles();
  files();
  offsets_of_copies();
  structures();
  runtime_options();
  a_runtime();
  texts();
  leave_scratch();
  return 0;
}
