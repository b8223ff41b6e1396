// This process's threads, by name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <sys/types.h>

namespace ferry::test {

inline std::vector<pid_t> ids_of_threads_named(const std::string& wanted) {
  std::vector<pid_t> found;
  std::error_code gone;  // threads end meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == wanted) found.push_back(std::stoi(task.path().filename()));
  }
  return found;
}

inline std::size_t threads_named(const std::string& wanted) {
  return ids_of_threads_named(wanted).size();
}

}  // namespace ferry::test
