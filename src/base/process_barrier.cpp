#include "base/process_barrier.hpp"

#include <cstdlib>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry {

namespace {

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

bool has_process_barrier() {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered;
#endif
}

void process_barrier() {
  // Cannot fail once registered; continuing would break what readers rely on.
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) std::abort();
}

}  // namespace ferry
