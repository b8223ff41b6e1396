// A memory barrier for all threads of the process at once: membarrier(2).
#pragma once

namespace ferry {

// Whether there is one; registers the process for it at the first call. Not under the thread
// sanitizer, which does not know it.
bool has_process_barrier();

// Every thread of the process passes a full memory barrier between begin and end of this call.
// About 0.1 us, and 1 us where other threads are running. has_process_barrier() was true.
void process_barrier();

}  // namespace ferry
