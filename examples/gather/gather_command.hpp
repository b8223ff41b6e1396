// The host side that does not depend on the device: arguments, the list of rows, and the report.
#pragma once

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>

#include "../common/command.hpp"
#include "gather.hpp"

namespace ferry::examples {

struct GatherRequest {
  std::vector<std::uint64_t> rows;
  std::string list_path;
  std::string table_path;
  std::string output_path;
  unsigned groups = 0;  // 0: chosen for the device
  std::uint64_t cache_bytes = 0;
};

// One number per line. Throws ferry::Error, and std::runtime_error for other lines.
inline std::vector<std::uint64_t> read_rows(const std::string& path) {
  std::ifstream list(path);
  std::vector<std::uint64_t> rows;
  std::string line;
  while (std::getline(list, line)) {
    std::uint64_t row = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), row);
    // Offsets in a file have 63 bits.
    if (error != std::errc() || rest != line.data() + line.size() || row >> 51 != 0) {
      throw std::runtime_error(path + ": line " + std::to_string(rows.size() + 1) +
                               " is not the number of a row");
    }
    rows.push_back(row);
  }
  if (!list.eof()) throw Error(errno != 0 ? errno : EIO, path);
  return rows;
}

// `gather(request)` throws on failure. Returns 0, 1 for failures, 2 for wrong arguments.
template <class Gather>
int gather_command(const char* name, int argc, char** argv, Gather gather) {
  return run_command(name, argc, argv, 1, [&](Words words) {
    GatherRequest request;
    request.groups = static_cast<unsigned>(take_number(words, "--groups", 0, 1, 4096));
    request.cache_bytes =
        take_number(words, "--cache-bytes", 64 << 20, 64 * row_bytes, std::uint64_t{1} << 40);
    if (words.size() != 3) {
      throw WrongArguments(std::string("usage: ") + name +
                           " [--groups N] [--cache-bytes BYTES] ROW-LIST TABLE OUTPUT");
    }
    request.list_path = words[0];
    request.table_path = words[1];
    request.output_path = words[2];
    request.rows = read_rows(request.list_path);
    gather(request);
    std::printf("%zu rows of %llu bytes\n", request.rows.size(),
                static_cast<unsigned long long>(row_bytes));
    return 0;
  });
}

// Throws if the device program failed.
inline void check_job(const GatherJob& job, const GatherRequest& request) {
  check_call(job.table, request.table_path);
  check_call(job.output, request.output_path);
  if (job.error == -ERANGE)
    throw std::runtime_error(request.list_path + " has rows that are not in " + request.table_path);
  check_call(job.error, request.table_path + " to " + request.output_path);
}

inline constexpr int create_flags = O_RDWR | O_CREAT | O_EXCL;

}  // namespace ferry::examples
