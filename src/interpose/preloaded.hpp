// The environment of programs that this library cannot stand under: it is taken out of LD_PRELOAD.
// Loaders of other C libraries than glibc refuse to start a program with it, and those of other
// processors print an error.
//
// Uses kernel_call and no memory but the caller's: the callers may be signal handlers or children
// of vfork.
#pragma once

#include <cstddef>

namespace ferry::run {

// A program as it is named to execve, execvp, fexecve or execveat.
struct ProgramName {
  int folder;                // of a relative path, or the program itself if there is no path
  const char* path;          // null: none
  bool is_searched = false;  // in PATH, if it has no slash
};

// The bytes that `without_this_library` needs; 0 if the environment may stay as it is.
std::size_t bytes_without_this_library(const ProgramName& program, char* const* environment);

// A copy of the environment in `memory`. Strings stay where they are, but for LD_PRELOAD.
char* const* without_this_library(char* const* environment, void* memory);

}  // namespace ferry::run
