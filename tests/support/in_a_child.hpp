// A child of fork() that looks at what its parent left it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace ferry::test {

// What `work` returns in a child, from 0 to 254; 255 if it throws, -1 if it crashes or
// takes 100 seconds.
template <class Work>
int in_a_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);
    try {
      _exit(static_cast<int>(work()));
    } catch (...) {
      _exit(255);
    }
  }
  int status = 0;
  const bool ended = waitpid(child, &status, 0) == child && WIFEXITED(status);
  return ended ? WEXITSTATUS(status) : -1;
}

}  // namespace ferry::test
