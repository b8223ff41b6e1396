// The names of this process's threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace ferry::test {

inline std::size_t threads_named(const std::string& wanted) {
  std::size_t found = 0;
  std::error_code gone;  // threads end meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == wanted) ++found;
  }
  return found;
}

}  // namespace ferry::test
