// A child of fork() that looks at what its parent left it.
#pragma once

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

namespace ferry::test {

inline constexpr int crashed = -1;
inline constexpr int took_too_long = -2;

// What `work` returns in a child, from 0 to 254; 255 if it throws, or one of the above.
template <class Work>
int in_a_child_within(unsigned longest_s, const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(longest_s);
    try {
      _exit(static_cast<int>(work()));
    } catch (...) {
      _exit(255);
    }
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return crashed;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return took_too_long;
  return WIFEXITED(status) ? WEXITSTATUS(status) : crashed;
}

// The same, within 100 seconds. The allocator of the address sanitizer does not prepare for fork():
// a child can hang whose parent's other threads allocate at that moment, so it gets four tries.
template <class Work>
int in_a_child(const Work& work) {
#ifdef __SANITIZE_ADDRESS__
  constexpr unsigned tries = 4;
#else
  constexpr unsigned tries = 1;
#endif
  int result = took_too_long;
  for (unsigned tried = 0; tried < tries && result == took_too_long; ++tried)
    result = in_a_child_within(100 / tries, work);
  return result;
}

}  // namespace ferry::test
