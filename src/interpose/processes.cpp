// Processes that start and end: buffered data must be written exactly once, and what was read is
// reported at the end.
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wordexp.h>

#include "base/forks.hpp"
#include "base/kernel_call.hpp"
#include "interpose/preloaded.hpp"
#include "interpose/standing_in.hpp"
#include "interpose/streams.hpp"

using ferry::iobuf::Files;
using ferry::iobuf::LockedOverFork;
using ferry::iobuf::next;
using ferry::run::CachedReads;
using ferry::run::DescriptorChange;
using ferry::run::ProgramName;
using ferry::run::without_this_library;

namespace {

// Of the process that has this memory; zero in a child that no handler of fork saw.
std::atomic<pid_t>* owner = nullptr;

void own_memory() {
  if (owner != nullptr) owner->store(static_cast<pid_t>(ferry::kernel_call(SYS_getpid)));
}

// It has its parent's memory, so what it ended would end there.
bool is_child_of_vfork() {
  const pid_t known = owner != nullptr ? owner->load() : 0;
  return known != 0 && known != static_cast<pid_t>(ferry::kernel_call(SYS_getpid));
}

// After fork, both processes share the file's position, and each could write the buffers. So write
// them before, and stop buffering.
void before_fork() {
  if (Files::buffers()) {
    ferry::iobuf::lock_streams();
    Files::instance().release_and_lock("fork");
  }
  CachedReads::instance().before_fork();
}
void after_fork_in_parent() {
  if (!Files::are_locked_here()) return;
  Files::instance().unlock();
  ferry::iobuf::unlock_streams();
}
void after_fork_in_child() {
  own_memory();
  CachedReads::instance().after_fork_in_child();
  if (!Files::are_locked_here()) return;
  Files::instance().unlock();
  ferry::iobuf::unlock_streams_in_child();
}

void finish_all() {
  if (is_child_of_vfork()) return;
  Files::instance().finish();
  CachedReads::instance().finish();
}

__attribute__((constructor)) void begin() {
  Files::begin();
  CachedReads::instance().start();
  if (void* page = ferry::make_page_that_forks_empty(); page != nullptr) {
    owner = new (page) std::atomic<pid_t>{0};
    own_memory();
  }
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
__attribute__((destructor)) void end() {
  finish_all();
}

// For another program, which may read the files, and inherits descriptors.
void before_program() {
  Files::instance().release_all("another program runs");
  CachedReads::instance().give_back_positions();
}

using Arguments = char* const*;

// The arguments of execl and similar functions, with the null pointer at their end: how many, and
// all of them. On the stack, because these functions may be called where malloc must not be.
std::size_t count_listed(const char* first, std::va_list rest) {
  std::size_t count = 1;
  for (const char* one = first; one != nullptr; one = va_arg(rest, char*))
    ++count;
  return count;
}
void list(const char* first, std::va_list& rest, char** to) {
  for (*to = const_cast<char*>(first); *to != nullptr; *to = va_arg(rest, char*))
    ++to;
}

// Once the program is in a sandbox, it makes its own system calls alone.
std::size_t bytes_without(const ProgramName& program, Arguments environment) {
  if (CachedReads::instance().is_stopped()) return 0;
  return ferry::run::bytes_without_this_library(program, environment);
}

}  // namespace

// Declares `variables`: the environment for a program. The memory is the caller's frame.
#define FERRY_VARIABLES_FOR(program, environment)                              \
  Arguments variables = environment;                                           \
  if (const std::size_t bytes = bytes_without(program, variables); bytes != 0) \
    variables = without_this_library(variables, alloca(bytes));

FERRY_STANDS_IN(void, _exit, int status) {
  finish_all();
  ferry::kernel_call(SYS_exit_group, status);
  __builtin_unreachable();
}
FERRY_STANDS_IN(void, _Exit, int status) {
  finish_all();
  ferry::kernel_call(SYS_exit_group, status);
  __builtin_unreachable();
}
FERRY_STANDS_IN(void, quick_exit, int status) {
  at_quick_exit(finish_all);
  next<void(int), "quick_exit">()(status);
  __builtin_unreachable();
}
FERRY_STANDS_IN(void, abort) {
  Files::instance().release_all("abort");
  next<void(), "abort">()();
  __builtin_unreachable();
}

FERRY_STANDS_IN(int, execve, const char* path, Arguments arguments, Arguments environment) {
  before_program();
  FERRY_VARIABLES_FOR((ProgramName{AT_FDCWD, path}), environment)
  return next<int(const char*, Arguments, Arguments), "execve">()(path, arguments, variables);
}
FERRY_STANDS_IN(int, execv, const char* path, Arguments arguments) {
  before_program();
  FERRY_VARIABLES_FOR((ProgramName{AT_FDCWD, path}), environ)
  if (variables == environ) return next<int(const char*, Arguments), "execv">()(path, arguments);
  return next<int(const char*, Arguments, Arguments), "execve">()(path, arguments, variables);
}
FERRY_STANDS_IN(int, execvpe, const char* path, Arguments arguments, Arguments environment) {
  before_program();
  FERRY_VARIABLES_FOR((ProgramName{AT_FDCWD, path, true}), environment)
  return next<int(const char*, Arguments, Arguments), "execvpe">()(path, arguments, variables);
}
FERRY_STANDS_IN(int, execvp, const char* path, Arguments arguments) {
  before_program();
  FERRY_VARIABLES_FOR((ProgramName{AT_FDCWD, path, true}), environ)
  if (variables == environ) return next<int(const char*, Arguments), "execvp">()(path, arguments);
  return next<int(const char*, Arguments, Arguments), "execvpe">()(path, arguments, variables);
}
FERRY_STANDS_IN(int, fexecve, int descriptor, Arguments arguments, Arguments environment) {
  before_program();
  FERRY_VARIABLES_FOR((ProgramName{descriptor, nullptr}), environment)
  return next<int(int, Arguments, Arguments), "fexecve">()(descriptor, arguments, variables);
}
FERRY_STANDS_IN(int, execveat, int folder, const char* path, Arguments arguments,
                Arguments environment, int flags) {
  before_program();
  const bool is_open = (flags & AT_EMPTY_PATH) != 0 && path != nullptr && *path == '\0';
  FERRY_VARIABLES_FOR((ProgramName{folder, is_open ? nullptr : path}), environment)
  return next<int(int, const char*, Arguments, Arguments, int), "execveat">()(
      folder, path, arguments, variables, flags);
}
// Declares `arguments` and `rest`, which stands after them.
#define FERRY_LISTED(first)                                                                  \
  std::va_list rest;                                                                         \
  va_start(rest, first);                                                                     \
  auto** arguments = static_cast<char**>(alloca(count_listed(first, rest) * sizeof(char*))); \
  va_end(rest);                                                                              \
  va_start(rest, first);                                                                     \
  list(first, rest, arguments);
FERRY_STANDS_IN(int, execl, const char* path, const char* first, ...) {
  FERRY_LISTED(first)
  va_end(rest);
  return execv(path, arguments);
}
FERRY_STANDS_IN(int, execlp, const char* path, const char* first, ...) {
  FERRY_LISTED(first)
  va_end(rest);
  return execvp(path, arguments);
}
FERRY_STANDS_IN(int, execle, const char* path, const char* first, ...) {
  FERRY_LISTED(first)
  Arguments environment = va_arg(rest, Arguments);
  va_end(rest);
  return execve(path, arguments, environment);
}

FERRY_STANDS_IN(int, system, const char* command) {
  before_program();
  return next<int(const char*), "system">()(command);
}
#define FERRY_POPEN(name)                                                 \
  FERRY_STANDS_IN(FILE*, name, const char* command, const char* mode) {   \
    before_program();                                                     \
    return next<FILE*(const char*, const char*), #name>()(command, mode); \
  }
FERRY_POPEN(popen)
FERRY_POPEN(_IO_popen)
// It may run commands.
FERRY_STANDS_IN(int, wordexp, const char* words, wordexp_t* expanded, int flags) {
  before_program();
  return next<int(const char*, wordexp_t*, int), "wordexp">()(words, expanded, flags);
}

#define FERRY_SPAWN(name, is_searched)                                                            \
  FERRY_STANDS_IN(int, name, pid_t* pid, const char* path,                                        \
                  const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes, \
                  Arguments arguments, Arguments environment) {                                   \
    before_program();                                                                             \
    FERRY_VARIABLES_FOR((ProgramName{AT_FDCWD, path, is_searched}), environment)                  \
    return next<int(pid_t*, const char*, const posix_spawn_file_actions_t*,                       \
                    const posix_spawnattr_t*, Arguments, Arguments),                              \
                #name>()(pid, path, actions, attributes, arguments, variables);                   \
  }
FERRY_SPAWN(posix_spawn, false)
FERRY_SPAWN(posix_spawnp, true)

// ---- sanitizers --------------------------------------------------------------------------------

// AddressSanitizer asks for this, and would else refuse to run a program in which another library
// comes before its own. A program's own function of this name comes before this one.
FERRY_STANDS_IN(const char*, __asan_default_options) {
  return "verify_asan_link_order=0";
}

// ---- children that no handler of fork sees -----------------------------------------------------

FERRY_STANDS_IN(pid_t, _Fork, void) {
  const LockedOverFork locked;
  CachedReads::instance().before_child(0);
  if (auto* original = next<pid_t(), "_Fork">(); original != nullptr) return original();
  return static_cast<pid_t>(next<long(long, ...), "syscall">()(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

namespace {

struct ChildOfClone {
  int (*function)(void*);
  void* argument;
};
// In its own memory. The parent, which holds the locks, returns elsewhere.
int begin_child_of_clone(void* memory) {
  const ChildOfClone child = *static_cast<ChildOfClone*>(memory);
  if (Files::are_locked_here()) Files::instance().unlock();
  return child.function(child.argument);
}

}  // namespace

#define FERRY_CLONE(name)                                                                      \
  FERRY_STANDS_IN(int, name, int (*function)(void*), void* stack, int flags, void* argument,   \
                  ...) {                                                                       \
    std::va_list rest;                                                                         \
    va_start(rest, argument);                                                                  \
    std::array<void*, 3> words{};                                                              \
    for (void*& word : words)                                                                  \
      word = va_arg(rest, void*);                                                              \
    va_end(rest);                                                                              \
    auto* original = next<int(int (*)(void*), void*, int, void*, ...), #name>();               \
    if ((flags & CLONE_VM) != 0 || function == nullptr) {                                      \
      CachedReads::instance().before_child(flags);                                             \
      return original(function, stack, flags, argument, words[0], words[1], words[2]);         \
    }                                                                                          \
    const LockedOverFork locked;                                                               \
    CachedReads::instance().before_child(flags);                                               \
    ChildOfClone child{function, argument};                                                    \
    return original(begin_child_of_clone, stack, flags, &child, words[0], words[1], words[2]); \
  }
FERRY_CLONE(clone)
FERRY_CLONE(__clone)

// vfork returns twice from one call, so nothing of ours may be on the stack while it does: these
// jump to the original.
namespace {

extern "C" __attribute__((used)) void* ferry_run_before_vfork() {
  Files::instance().release_all("vfork");
  CachedReads::instance().before_child(CLONE_VM | CLONE_VFORK);
  return reinterpret_cast<void*>(next<pid_t(), "vfork">());
}

}  // namespace

#if defined(__x86_64__)
#define FERRY_VFORK(name)                    \
  __asm__(".pushsection .text\n.globl " name \
          "\n"                               \
          ".type " name ", @function\n" name \
          ":\n"                              \
          ".cfi_startproc\n"                 \
          "endbr64\n"                        \
          "sub $8, %rsp\n"                   \
          ".cfi_adjust_cfa_offset 8\n"       \
          "call ferry_run_before_vfork\n"    \
          "add $8, %rsp\n"                   \
          ".cfi_adjust_cfa_offset -8\n"      \
          "jmp *%rax\n"                      \
          ".cfi_endproc\n"                   \
          ".size " name ", . - " name "\n.popsection\n")
#elif defined(__aarch64__)
#define FERRY_VFORK(name)                      \
  __asm__(".pushsection .text\n.globl " name   \
          "\n"                                 \
          ".type " name ", @function\n" name   \
          ":\n"                                \
          ".cfi_startproc\n"                   \
          "hint #34\n"                         \
          "stp x29, x30, [sp, #-16]!\n"        \
          ".cfi_def_cfa_offset 16\n"           \
          ".cfi_offset 29, -16\n"              \
          ".cfi_offset 30, -8\n"               \
          "bl ferry_run_before_vfork\n"        \
          "mov x16, x0\n"                      \
          "ldp x29, x30, [sp], #16\n"          \
          ".cfi_def_cfa_offset 0\n"            \
          ".cfi_restore 29\n.cfi_restore 30\n" \
          "br x16\n"                           \
          ".cfi_endproc\n"                     \
          ".size " name ", . - " name "\n.popsection\n")
#else
#error "the stand-in of vfork is not written for this processor"
#endif
FERRY_VFORK("vfork");
FERRY_VFORK("__vfork");

// It makes other files of descriptors inside the C library.
FERRY_STANDS_IN(int, login_tty, int descriptor) {
  const DescriptorChange change(STDIN_FILENO, STDERR_FILENO);
  const DescriptorChange own(descriptor);
  return next<int(int), "login_tty">()(descriptor);
}
