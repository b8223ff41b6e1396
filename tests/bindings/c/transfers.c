// Bulk transfers from C: bytes move, futures end, and copies are whole.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

enum { large_bytes = 3 << 20 };

static unsigned char written[large_bytes];
static unsigned char got[large_bytes];

static void blocking_calls(void) {
  ferry_file* file = NULL;
  CHECK_EQUAL(ferry_open(&file, "one", O_RDWR | O_CREAT | O_EXCL, 0640), 0);
  CHECK(file != NULL);
  fill(written, large_bytes, 0);
  CHECK_EQUAL(ferry_pwrite(file, written, large_bytes, 0), large_bytes);
  CHECK_EQUAL(ferry_size(file), large_bytes);
  CHECK_EQUAL(ferry_pread(file, got, large_bytes, 0), large_bytes);
  CHECK(is_filled(got, large_bytes, 0));
  CHECK_EQUAL(ferry_pread(file, got, 100, 12345), 100);
  CHECK(is_filled(got, 100, 12345));
  CHECK_EQUAL(ferry_pread(file, got, 100, large_bytes - 7), 7);
  CHECK_EQUAL(ferry_pread(file, got, 100, large_bytes), 0);
  CHECK_EQUAL(ferry_pread(file, NULL, 0, 0), 0);
  // All that is there: the end of the file ends it, and not the end of so large a range.
  CHECK_EQUAL(ferry_pread(file, got, UINT64_C(1) << 62, 0), large_bytes);
  CHECK_EQUAL(ferry_truncate(file, 5000), 0);
  CHECK_EQUAL(ferry_sync(file), 0);
  CHECK_EQUAL(ferry_close(file), 0);
  ferry_path_status status;
  CHECK_EQUAL(ferry_stat("one", &status), 0);
  CHECK_EQUAL((int64_t)status.size_bytes, 5000);
  CHECK_EQUAL(status.mode, S_IFREG | 0640);
  CHECK(status.modified_ns > INT64_C(1600000000000000000));
  CHECK_EQUAL(ferry_rename("one", "two"), 0);
  CHECK_EQUAL(ferry_stat("one", &status), -ENOENT);
  CHECK_EQUAL(ferry_unlink("two"), 0);
}

static void futures(void) {
  ferry_file* file = NULL;
  CHECK_EQUAL(ferry_open(&file, "later", O_RDWR | O_CREAT, 0600), 0);
  fill(written, large_bytes, 0);
  ferry_future* writing = NULL;
  CHECK_EQUAL(ferry_pwrite_async(&writing, file, written, large_bytes, 0), 0);
  CHECK_EQUAL(ferry_future_wait(writing, -1), 1);
  CHECK_EQUAL(ferry_future_wait(writing, 0), 1);
  CHECK_EQUAL(ferry_future_test(writing), 1);
  CHECK_EQUAL(ferry_future_result(writing), large_bytes);
  CHECK_EQUAL(ferry_future_free(writing), 0);

  // Three parts, the last of them beyond the end of the file.
  const ferry_part parts[] = {{file, got, 1 << 20, 0},
                              {file, got + (1 << 20), 1 << 20, 1 << 20},
                              {file, got + (2 << 20), 1 << 20, large_bytes - 10}};
  ferry_future* reading[2] = {NULL, NULL};
  CHECK_EQUAL(ferry_read_parts(&reading[0], parts, 3), 0);
  unsigned char few[10];
  CHECK_EQUAL(ferry_pread_async(&reading[1], file, few, 10, 5), 0);
  CHECK(ferry_future_wait_any(reading, 2) >= 0);
  CHECK_EQUAL(ferry_future_result(reading[0]), (2 << 20) + 10);
  CHECK_EQUAL(ferry_future_part_result(reading[0], 1), 1 << 20);
  CHECK_EQUAL(ferry_future_part_result(reading[0], 2), 10);
  CHECK_EQUAL(ferry_future_part_result(reading[0], 3), -EINVAL);
  CHECK(is_filled(got, 2 << 20, 0));
  CHECK_EQUAL(ferry_future_result(reading[1]), 10);
  CHECK(is_filled(few, 10, 5));
  CHECK_EQUAL(ferry_future_free(reading[0]), 0);
  CHECK_EQUAL(ferry_future_free(reading[1]), 0);

  // A future outlives the handle of its file.
  CHECK_EQUAL(ferry_pread_async(&reading[0], file, got, large_bytes, 0), 0);
  CHECK_EQUAL(ferry_close(file), 0);
  CHECK_EQUAL(ferry_future_result(reading[0]), large_bytes);
  CHECK_EQUAL(ferry_future_cancel(reading[0]), 0);
  CHECK_EQUAL(ferry_future_result(reading[0]), large_bytes);
  CHECK_EQUAL(ferry_future_free(reading[0]), 0);
  CHECK_EQUAL(ferry_future_result(reading[0]), -EBADF);
  CHECK_EQUAL(ferry_unlink("later"), 0);
}

static void copies(void) {
  ferry_file* from = NULL;
  ferry_file* to = NULL;
  enum { bytes = 20 << 20 };  // more than two steps of a copy
  unsigned char* contents = malloc(bytes);
  CHECK(contents != NULL);
  fill(contents, bytes, 0);
  CHECK_EQUAL(ferry_open(&from, "from", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_open(&to, "to", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_pwrite(from, contents, bytes, 0), bytes);
  CHECK_EQUAL(ferry_copy(from, 100, to, 7, UINT64_MAX), bytes - 100);
  CHECK_EQUAL(ferry_size(to), bytes - 100 + 7);
  memset(contents, 0, bytes);
  CHECK_EQUAL(ferry_pread(to, contents, bytes, 7), bytes - 100);
  CHECK(is_filled(contents, bytes - 100, 100));
  CHECK_EQUAL(ferry_copy(from, 0, to, 0, 10), 10);
  CHECK_EQUAL(ferry_copy(from, bytes, to, 0, 10), 0);
  CHECK_EQUAL(ferry_copy(from, (uint64_t)INT64_MAX / 2, to, 0, UINT64_MAX), 0);
  CHECK_EQUAL(ferry_copy(from, 0, from, 5, 10), -EINVAL);
  CHECK_TEXT("overlap");
  CHECK_EQUAL(ferry_copy(from, 0, from, 10, 10), 10);
  free(contents);
  CHECK_EQUAL(ferry_close(from), 0);
  CHECK_EQUAL(ferry_close(to), 0);
  CHECK_EQUAL(ferry_unlink("from"), 0);
  CHECK_EQUAL(ferry_unlink("to"), 0);
}

// The pieces of a large write follow each other.
static void appends(void) {
  ferry_file* file = NULL;
  ferry_future* future = NULL;
  fill(written, large_bytes, 1);
  for (int i = 0; i < 2; ++i) {
    const int flags = O_RDWR | O_CREAT | O_APPEND | (i == 0 ? 0 : O_DIRECT);
    CHECK_EQUAL(ferry_open(&file, "log", flags, 0600), 0);
    CHECK_EQUAL(ferry_pwrite(file, "x", 1, 0), 1);
    CHECK_EQUAL(ferry_pwrite(file, written, large_bytes, 0), large_bytes);
    CHECK_EQUAL(ferry_pwrite_async(&future, file, written, large_bytes, 0), -EINVAL);
    CHECK_TEXT("O_APPEND");
    CHECK_EQUAL(ferry_pread(file, got, large_bytes, 1), large_bytes);
    CHECK(is_filled(got, large_bytes, 1));
    CHECK_EQUAL(ferry_size(file), large_bytes + 1);
    CHECK_EQUAL(ferry_close(file), 0);
    CHECK_EQUAL(ferry_unlink("log"), 0);
  }
}

static void copies_what_shows_no_size(void) {
  ferry_file* from = NULL;
  ferry_file* to = NULL;
  CHECK_EQUAL(ferry_open(&from, "/proc/version", O_RDONLY, 0), 0);
  CHECK_EQUAL(ferry_open(&to, "to", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_size(from), 0);
  const int64_t bytes = ferry_copy(from, 0, to, 3, UINT64_MAX);
  CHECK(bytes > 10);
  CHECK_EQUAL(ferry_size(to), bytes + 3);
  CHECK_EQUAL(ferry_copy(from, 0, to, 0, 5), 5);
  CHECK_EQUAL(ferry_close(from), 0);
  CHECK_EQUAL(ferry_close(to), 0);
  CHECK_EQUAL(ferry_unlink("to"), 0);
}

static void layouts_and_storages(void) {
  ferry_layout layout = FERRY_LAYOUT_INIT;
  CHECK_EQUAL(ferry_layout_get(".", &layout), -EOPNOTSUPP);
  CHECK_TEXT("stripes no files");
  layout.stripe_count = 2;
  CHECK_EQUAL(ferry_layout_set("striped", &layout), -EOPNOTSUPP);
  CHECK_EQUAL(access("striped", F_OK), -1);
  char text[4096];
  const int64_t length = ferry_explain(".", text, sizeof text);
  CHECK_EQUAL(length, (int64_t)strlen(text));
  CHECK(strstr(text, "storage: posix\n") == text);
  CHECK_EQUAL(ferry_explain(".", NULL, 0), length);
  char cut[9];
  CHECK_EQUAL(ferry_explain(".", cut, sizeof cut), length);
  CHECK(strcmp(cut, "storage:") == 0);
}

// A handle is of no use to a child, whose own work: Ferry's threads are not in it.
static void children(void) {
  ferry_file* file = NULL;
  CHECK_EQUAL(ferry_open(&file, "parents", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_pwrite(file, "parent", 6, 0), 6);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char here[6];
    CHECK_EQUAL(ferry_pread(file, here, 6, 0), -ECHILD);
    CHECK_EQUAL(ferry_close(file), -ECHILD);
    ferry_file* own = NULL;
    CHECK_EQUAL(ferry_open(&own, "parents", O_RDONLY, 0), 0);
    CHECK_EQUAL(ferry_pread(own, here, 6, 0), 6);
    CHECK(memcmp(here, "parent", 6) == 0);
    CHECK_EQUAL(ferry_close(own), 0);
    _exit(0);
  }
  int status = -1;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK_EQUAL(status, 0);
  CHECK_EQUAL(ferry_close(file), 0);
  CHECK_EQUAL(ferry_unlink("parents"), 0);
}

int main(void) {
  enter_scratch();
  blocking_calls();
  futures();
  copies();
  copies_what_shows_no_size();
  appends();
  layouts_and_storages();
  children();
  leave_scratch();
  return 0;
}
