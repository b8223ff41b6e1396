#include "collective/node_segment.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ferry::collective {
namespace {

std::byte* map(std::size_t bytes, int flags, int descriptor) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_HUGEPAGE);  // if the kernel has none, small ones do
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::byte* make_segment(std::size_t bytes, bool shared, int& descriptor) {
  descriptor = shared ? memfd_create("ferry-collective", MFD_CLOEXEC) : -1;
  if (descriptor >= 0) {
    std::byte* memory = nullptr;
    if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0)
      memory = map(bytes, MAP_SHARED, descriptor);
    if (memory != nullptr) return memory;
    ::close(descriptor);
    descriptor = -1;
  }
  return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

SegmentTicket ticket_of(std::byte* memory, int descriptor) {
  if (descriptor < 0) return {};
  std::random_device random;
  const SegmentTicket ticket{getpid(), descriptor, (std::uint64_t{random()} << 32) | random()};
  std::memcpy(memory + segment_token_offset, &ticket.token, sizeof ticket.token);
  return ticket;
}

std::byte* map_segment(const SegmentTicket& ticket, std::size_t bytes) {
  if (ticket.descriptor < 0) return nullptr;
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%lld/fd/%lld",
                static_cast<long long>(ticket.process), static_cast<long long>(ticket.descriptor));
  const int descriptor = ::open(path.data(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  struct stat status {};
  std::byte* memory = nullptr;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<std::size_t>(status.st_size) == bytes) {
    memory = map(bytes, MAP_SHARED, descriptor);
  }
  ::close(descriptor);
  if (memory == nullptr) return nullptr;
  if (std::memcmp(memory + segment_token_offset, &ticket.token, sizeof ticket.token) == 0)
    return memory;
  munmap(memory, bytes);
  return nullptr;
}

void unmap_segment(std::byte* memory, std::size_t bytes) {
  if (memory != nullptr) munmap(memory, bytes);
}

}  // namespace ferry::collective
