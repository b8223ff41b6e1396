// Makes a process, into which LD_PRELOAD loads it, see a kernel with pages of 64 KiB, as some of
// aarch64 have: whatever is no multiple of them is refused, as there.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr std::uintptr_t page_bytes = 64 << 10;

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

bool is_whole(std::uintptr_t value) {
  return value % page_bytes == 0;
}

std::size_t whole(std::size_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

int refuse() {
  errno = EINVAL;
  return -1;
}

void* map(void* wanted, std::size_t bytes, int access, int flags, int file, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, wanted, bytes, access, flags, file, offset));
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int getpagesize() noexcept {
  return page_bytes;
}

long sysconf(int name) noexcept {
  if (name == _SC_PAGESIZE) return page_bytes;
  static const auto original = next<long(int)>("sysconf");
  return original(name);
}

unsigned long getauxval(unsigned long type) noexcept {
  if (type == AT_PAGESZ) return page_bytes;
  static const auto original = next<unsigned long(unsigned long)>("getauxval");
  return original(type);
}

void* mmap(void* wanted, std::size_t bytes, int access, int flags, int file,
           off_t offset) noexcept {
  const bool is_fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
  if (!is_whole(static_cast<std::uintptr_t>(offset)) || (is_fixed && !is_whole(number(wanted)))) {
    refuse();
    return MAP_FAILED;
  }
  const std::size_t all = whole(bytes);
  if (is_fixed || (flags & MAP_HUGETLB) != 0) return map(wanted, all, access, flags, file, offset);
  // An address that is a multiple of the page: in more room than is needed.
  void* const room =
      map(nullptr, all + page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  const std::uintptr_t begin = whole(number(room));
  const std::uintptr_t before = begin - number(room);
  void* const mapped =
      map(reinterpret_cast<void*>(begin), all, access, flags | MAP_FIXED, file, offset);
  const int error = errno;
  if (mapped == MAP_FAILED) {
    syscall(SYS_munmap, room, all + page_bytes);
  } else {
    if (before > 0) syscall(SYS_munmap, room, before);
    if (before < page_bytes) syscall(SYS_munmap, begin + all, page_bytes - before);
  }
  errno = error;
  return mapped;
}

void* mmap64(void* wanted, std::size_t bytes, int access, int flags, int file,
             off_t offset) noexcept {
  return mmap(wanted, bytes, access, flags, file, offset);
}

int munmap(void* begin, std::size_t bytes) noexcept {
  if (!is_whole(number(begin))) return refuse();
  return static_cast<int>(syscall(SYS_munmap, begin, whole(bytes)));
}

int mprotect(void* begin, std::size_t bytes, int access) noexcept {
  if (!is_whole(number(begin))) return refuse();
  return static_cast<int>(syscall(SYS_mprotect, begin, whole(bytes), access));
}

int madvise(void* begin, std::size_t bytes, int advice) noexcept {
  if (!is_whole(number(begin))) return refuse();
  return static_cast<int>(syscall(SYS_madvise, begin, whole(bytes), advice));
}

int msync(void* begin, std::size_t bytes, int flags) {
  if (!is_whole(number(begin))) return refuse();
  return static_cast<int>(syscall(SYS_msync, begin, whole(bytes), flags));
}

int mincore(void* begin, std::size_t bytes, unsigned char* pages) noexcept {
  if (!is_whole(number(begin))) return refuse();
  constexpr std::size_t parts = page_bytes / 4096;
  for (std::size_t at = 0; at < bytes; at += page_bytes) {
    unsigned char part[parts] = {};
    if (syscall(SYS_mincore, number(begin) + at, std::min(bytes - at, page_bytes), part) != 0)
      return -1;
    pages[at / page_bytes] = part[0];
  }
  return 0;
}
}
