// Files of a storage without a mount, and their layouts, through a mock of PVFS2's library, which
// the loader finds. pvfs2:/mock is the folder `served`.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "check.h"

static void mount_mock(void) {
  CHECK_EQUAL(mkdir("served", 0700), 0);
  FILE* table = fopen("pvfs2tab", "w");
  CHECK(table != NULL);
  fprintf(table, "mock:%s/served /mock pvfs2 defaults 0 0\n", scratch_folder);
  CHECK_EQUAL(fclose(table), 0);
  CHECK_EQUAL(setenv("PVFS2TAB_FILE", "pvfs2tab", 1), 0);
}

static void layouts(void) {
  ferry_layout layout = FERRY_LAYOUT_INIT;
  layout.stripe_bytes = 1 << 20;
  layout.stripe_count = 3;
  CHECK_EQUAL(ferry_layout_set("pvfs2:/mock/striped", &layout), 0);
  CHECK_EQUAL(ferry_layout_set("pvfs2:/mock/striped", &layout), -EEXIST);
  ferry_layout granted = FERRY_LAYOUT_INIT;
  CHECK_EQUAL(ferry_layout_get("pvfs2:/mock/striped", &granted), 0);
  CHECK_EQUAL((int64_t)granted.stripe_bytes, 1 << 20);
  CHECK_EQUAL(granted.stripe_count, 3);
  CHECK_EQUAL((int64_t)granted.struct_bytes, sizeof granted);
  memcpy(layout.pool, "pool", 5);
  CHECK_EQUAL(ferry_layout_set("pvfs2:/mock/pooled", &layout), -EINVAL);
  CHECK_TEXT("PVFS2");  // its rules
  CHECK_EQUAL(access("served/pooled", F_OK), -1);
  layout.at_most = 1;
  CHECK_EQUAL(ferry_layout_set("pvfs2:/mock/pooled", &layout), 0);
  CHECK_EQUAL(ferry_layout_get("pvfs2:/mock/absent", &granted), -ENOENT);
}

static int sums(ferry_thread* thread, void* user) {
  unsigned char memory[1000];
  const int file = ferry_device_open(thread, "pvfs2:/mock/striped", O_RDONLY, 0);
  if (file < 0) return file;
  CHECK_EQUAL(ferry_device_pread(thread, file, memory, sizeof memory, 500), sizeof memory);
  *(int*)user = is_filled(memory, sizeof memory, 500);
  return ferry_device_close(thread, file);
}

static void files(void) {
  unsigned char memory[5000];
  ferry_file* striped = NULL;
  ferry_file* local = NULL;
  fill(memory, sizeof memory, 0);
  CHECK_EQUAL(ferry_open(&striped, "pvfs2:/mock/striped", O_RDWR, 0), 0);
  CHECK_EQUAL(ferry_open(&local, "local", O_RDWR | O_CREAT, 0600), 0);
  CHECK_EQUAL(ferry_pwrite(local, memory, sizeof memory, 0), sizeof memory);
  CHECK_EQUAL(ferry_copy(local, 0, striped, 0, UINT64_MAX), sizeof memory);
  CHECK_EQUAL(ferry_close(local), 0);
  CHECK_EQUAL(ferry_close(striped), 0);
  ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  options.device_threads = 1;
  options.arena_bytes = 1 << 20;
  ferry_runtime* runtime = NULL;
  int right = 0;
  CHECK_EQUAL(ferry_runtime_create(&runtime, &options), 0);
  CHECK_EQUAL(ferry_runtime_run(runtime, sums, &right), 0);
  CHECK(right);
  CHECK_EQUAL(ferry_runtime_destroy(runtime), 0);
}

int main(void) {
  enter_scratch();
  mount_mock();
  layouts();
  files();
  CHECK_EQUAL(ferry_unlink("pvfs2:/mock/striped"), 0);
  CHECK_EQUAL(ferry_unlink("pvfs2:/mock/pooled"), 0);
  CHECK_EQUAL(ferry_unlink("local"), 0);
  CHECK_EQUAL(unlink("pvfs2tab"), 0);
  CHECK_EQUAL(rmdir("served"), 0);
  leave_scratch();
  return 0;
}
