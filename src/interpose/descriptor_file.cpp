// Uses bare system calls, because the library that buffers other programs replaces the C library's.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ferry/buffered_file.hpp>

#include "base/kernel_call.hpp"

namespace ferry {
namespace {

constexpr std::uint64_t call_bytes_max = 0x7ffff000;  // the kernel's

// Repeats `call(done, step)` until all is moved or it returns 0.
template <class Call>
std::int64_t move_all(std::uint64_t bytes, Call&& call) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const long moved = call(done, std::min(bytes - done, call_bytes_max));
    if (moved == -EINTR) continue;
    if (moved < 0) return moved;
    if (moved == 0) break;
    done += static_cast<std::uint64_t>(moved);
  }
  return static_cast<std::int64_t>(done);
}

}  // namespace

std::int64_t DescriptorFile::read(void* data, std::uint64_t bytes, std::uint64_t offset) {
  return move_all(bytes, [&](std::uint64_t done, std::uint64_t step) {
    return kernel_call(SYS_pread64, descriptor_, static_cast<char*>(data) + done, step,
                       offset + done);
  });
}

std::int64_t DescriptorFile::write(const void* data, std::uint64_t bytes, std::uint64_t offset) {
  const std::int64_t moved = move_all(bytes, [&](std::uint64_t done, std::uint64_t step) {
    return kernel_call(SYS_pwrite64, descriptor_, static_cast<const char*>(data) + done, step,
                       offset + done);
  });
  return moved >= 0 && moved < static_cast<std::int64_t>(bytes) ? -EIO : moved;
}

std::int64_t DescriptorFile::size_bytes() {
  struct stat status {};
  // On 64-bit machines the structure equals the C library's, but only fstatat exists on all.
  const long error = kernel_call(SYS_newfstatat, descriptor_, "", &status, AT_EMPTY_PATH);
  return error != 0 ? error : status.st_size;
}

int DescriptorFile::resize(std::uint64_t size_bytes) {
  return static_cast<int>(kernel_call(SYS_ftruncate, descriptor_, size_bytes));
}

}  // namespace ferry
