// Divides ranks into groups of neighbours, each with its own file (Options::files).
#pragma once

#include <cstdint>
#include <string>

#include "storage/uri.hpp"

namespace ferry::collective {

// The file of a rank, among this many files (from 1 to the number of ranks).
constexpr int file_of(int rank, int ranks, int files) {
  return static_cast<int>(std::int64_t{rank} * files / ranks);
}

// The first rank of a file's group; `ranks` for one past the last file.
constexpr int first_rank_of(int file, int ranks, int files) {
  return static_cast<int>((std::int64_t{file} * ranks + files - 1) / files);
}

// PATH.0, PATH.1 and so on, padded to equal length; in a URI before its query.
inline std::string path_of(std::string path, int file, int files) {
  std::string number = std::to_string(file);
  number.insert(0, std::to_string(files - 1).size() - number.size(), '0');
  return path.insert(storage::path_end(path), "." + number);
}

}  // namespace ferry::collective
