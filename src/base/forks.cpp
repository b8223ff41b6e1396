#include "base/forks.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry {
namespace {

std::atomic<std::uint64_t> generation{0};

}  // namespace

std::uint64_t fork_generation() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

void* make_page_that_forks_empty() {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return page;
  munmap(page, bytes);
  return nullptr;
}

}  // namespace ferry
