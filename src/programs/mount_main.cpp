// Runs a program that finds other storages' files in folders: ferry-mount JSON PROGRAM WORD...
//   [{"folder": PATH, "target": PATH or URI}, ...]
// WORDs are the program's, its own name first. FERRY_MOUNT_PRELOAD becomes its LD_PRELOAD, which
// this program must not have itself. `ferry run --map` runs it, so errors are that command's: one
// line on standard error. Exit status before the program runs: 1 (failed), 2 (wrong arguments), 126
// and 127 as in shells.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "fuse/namespaces.hpp"

namespace ferry::bench {
namespace {

int say(const std::string& line, int status) {
  std::fprintf(stderr, "ferry: %s\n", line.c_str());
  return status;
}

// Returns only where it cannot.
int become(const char* program, char** words) {
  execv(program, words);
  int error = errno;
  if (error == ENOEXEC) {  // a script that does not say by what
    std::vector<char*> shell{const_cast<char*>("/bin/sh"), const_cast<char*>(program)};
    for (char** word = words + 1; *word != nullptr; ++word)
      shell.push_back(*word);
    shell.push_back(nullptr);
    execv("/bin/sh", shell.data());
    error = errno;
  }
  return error;
}

int run(int count, char** arguments) {
  const nlohmann::json wishes =
      count >= 4 ? nlohmann::json::parse(arguments[1], nullptr, false) : nlohmann::json();
  if (!wishes.is_array())
    return say("usage: ferry-mount JSON PROGRAM WORD...; 'ferry run --map' runs it", 2);
  std::vector<fuse::FolderMap> maps;
  for (const nlohmann::json& map : wishes)
    maps.push_back({map.at("folder"), map.at("target")});
  fuse::enter_namespace(std::move(maps));
  if (const char* libraries = std::getenv("FERRY_MOUNT_PRELOAD"); libraries != nullptr) {
    setenv("LD_PRELOAD", libraries, 1);
    unsetenv("FERRY_MOUNT_PRELOAD");
  }
  const int error = become(arguments[2], arguments + 3);
  const std::error_code code(error, std::system_category());
  return say(std::string(arguments[2]) + ": " + code.message() + "; it cannot be executed",
             error == ENOENT ? 127 : 126);
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  try {
    return ferry::bench::run(count, arguments);
  } catch (const std::exception& error) {
    return ferry::bench::say(error.what(), 1);
  }
}
