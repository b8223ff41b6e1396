// A program with an allocator of its own, as tcmalloc and jemalloc are: it asks the kernel by bare
// system calls, and looks at a file when it begins. own_malloc FILE writes small requests.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char* room;
static size_t left;

static void* allocate(size_t bytes, size_t alignment) {
  if (room == NULL) {
    char text[64];
    const int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY);
    if (file >= 0 && syscall(SYS_read, file, text, sizeof text) > 0) syscall(SYS_close, file);
  }
  const size_t before = (alignment - (uintptr_t)room % alignment) % alignment;
  if (room == NULL || left < bytes + before + 64) {
    const size_t fresh = bytes + alignment + 65536;
    room = (char*)syscall(SYS_mmap, 0L, fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1L, 0L);
    left = fresh;
    return allocate(bytes, alignment);
  }
  char* const given = room + before;
  room = given + bytes;
  left -= before + bytes;
  return given;
}

void* malloc(size_t bytes) {
  size_t* const given = allocate(bytes + 16, 16);
  *given = bytes;
  return (char*)given + 16;
}
void free(void* memory) {
  (void)memory;
}
void* calloc(size_t count, size_t bytes) {
  return memset(malloc(count * bytes), 0, count * bytes);
}
void* realloc(void* memory, size_t bytes) {
  void* const given = malloc(bytes);
  if (memory != NULL) {
    const size_t old = *(size_t*)((char*)memory - 16);
    memcpy(given, memory, old < bytes ? old : bytes);
  }
  return given;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return allocate(bytes, alignment);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = allocate(bytes, alignment);
  return 0;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  for (int round = 0; round < 3; ++round) {
    const int file = open(arguments[1], O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 100; ++i)
      if (pwrite(file, "before ", 7, 7 * (100 * round + i)) != 7) return 1;
    char got[8] = "";
    if (pread(file, got, 7, 7) != 7) return 1;
    puts(got);
    if (close(file) != 0) return 1;
  }
  return 0;
}
