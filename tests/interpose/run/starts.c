// A program that knows nothing of Ferry and starts another in every way that the C library has:
//   starts WAY PROGRAM ARGUMENT
// or, as "forks", has children that no handler of fork sees do so while other threads do.
// Its memory's allocator ends a child that uses it: these functions may be called by handlers of
// signals, and by children of a process with threads.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern void* __libc_malloc(size_t bytes);

static int is_child;

void* malloc(size_t bytes) {
  if (is_child) {
    static const char text[] = "malloc in the child\n";
    syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
    syscall(SYS_exit_group, 9);
  }
  return __libc_malloc(bytes);
}

static atomic_int is_over;

static void* start_nothing(void* argument) {
  char* list[] = {argument, NULL};
  while (!is_over)
    execv("/nowhere/program", list);
  return NULL;
}

// 0 if all children come to their end.
static int fork_beside_threads(char* name) {
  char* list[] = {name, NULL};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], NULL, start_nothing, name) != 0) return 8;
  int failures = 0;
  for (int i = 0; i < 1000 && failures == 0; ++i) {
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      alarm(20);
      execv("/nowhere/program", list);
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) ++failures;
  }
  is_over = 1;
  for (int i = 0; i < 2; ++i)
    pthread_join(threads[i], NULL);
  return failures;
}

int main(int count, char** words) {
  if (count == 2 && strcmp(words[1], "forks") == 0) return fork_beside_threads(words[0]);
  if (count != 4) return 2;
  const char* way = words[1];
  char* program = words[2];
  char* list[] = {program, words[3], NULL};
  const char* slash = strrchr(program, '/');
  const char* name = slash != NULL ? slash + 1 : program;
  char folder[4096] = "";
  if (slash != NULL) {
    strncat(folder, program, (size_t)(slash - program));
    setenv("PATH", folder, 1);
  }
  pid_t child = -1;
  if (strcmp(way, "posix_spawn") == 0) {
    if (posix_spawn(&child, program, NULL, NULL, list, environ) != 0) return 3;
  } else if (strcmp(way, "posix_spawnp") == 0) {
    if (posix_spawnp(&child, name, NULL, NULL, list, environ) != 0) return 3;
  } else {
    child = fork();
  }
  if (child < 0) return 4;
  if (child == 0) {
    is_child = 1;
    if (strcmp(way, "execve") == 0) execve(program, list, environ);
    if (strcmp(way, "execv") == 0) execv(program, list);
    if (strcmp(way, "execvp") == 0) execvp(name, list);
    if (strcmp(way, "execvpe") == 0) execvpe(name, list, environ);
    if (strcmp(way, "execl") == 0) execl(program, program, words[3], (char*)NULL);
    if (strcmp(way, "execlp") == 0) execlp(name, name, words[3], (char*)NULL);
    if (strcmp(way, "execle") == 0) execle(program, program, words[3], (char*)NULL, environ);
    if (strcmp(way, "fexecve") == 0) fexecve(open(program, O_RDONLY), list, environ);
    if (strcmp(way, "execveat") == 0)
      execveat(open(folder, O_DIRECTORY | O_RDONLY), name, list, environ, 0);
    _exit(5);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 6;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 7;
}
