#include "mpiio/romio_hints.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace ferry::mpiio {
namespace {

constexpr const char* system_place = "/etc/romio-hints";
// ROMIO reads no more.
constexpr std::size_t bytes_max = 4096;

// Empty where it cannot be read.
std::string contents_of(int file) {
  std::string text(bytes_max, '\0');
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t more = read(file, text.data() + bytes, text.size() - bytes);
    if (more <= 0) break;
    bytes += static_cast<std::size_t>(more);
  }
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

std::vector<std::string> words_of(const std::string& line) {
  constexpr const char* spaces = " \t";
  std::vector<std::string> words;
  std::size_t end = 0;
  while (true) {
    const std::size_t begin = line.find_first_not_of(spaces, end);
    if (begin == std::string::npos) return words;
    end = std::min(line.find_first_of(spaces, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
  }
}

}  // namespace

std::map<std::string, std::string> hints_of_the_environment() {
  const char* place = std::getenv("ROMIO_HINTS");
  int file = place != nullptr ? open(place, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) file = open(system_place, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::istringstream lines(contents_of(file));
  close(file);
  std::map<std::string, std::string> hints;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    // Other lines are ignored, and so is a hint that was there before.
    if (words.size() == 2 && line[0] != '#') hints.emplace(words[0], words[1]);
  }
  return hints;
}

bool shall_print_hints() {
  return std::getenv("ROMIO_PRINT_HINTS") != nullptr;
}

void print_hints(MPI_Info info) {
  int count = 0;
  PMPI_Info_get_nkeys(info, &count);
  for (int i = 0; i < count; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> name{};
    std::array<char, MPI_MAX_INFO_VAL + 1> value{};
    int found = 0;
    PMPI_Info_get_nthkey(info, i, name.data());
    PMPI_Info_get(info, name.data(), MPI_MAX_INFO_VAL, value.data(), &found);
    std::printf("key = %-25s value = %-10s\n", name.data(), value.data());
  }
}

}  // namespace ferry::mpiio
