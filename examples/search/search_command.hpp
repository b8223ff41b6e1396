// The host side that does not depend on the device: arguments and answer.
#pragma once

#include <cstdio>
#include <string>

#include "../common/command.hpp"
#include "search.hpp"

namespace ferry::examples {

struct SearchRequest {
  std::string wanted;
  std::string path;
  unsigned groups = 0;  // 0: chosen for the device
};

// `count(request)` counts occurrences. Like grep: 0 if there are some, 1 for none, 2 for errors.
template <class Count>
int search_command(const char* name, int argc, char** argv, Count count) {
  return run_command(name, argc, argv, 2, [&](Words words) {
    SearchRequest request;
    request.groups = static_cast<unsigned>(take_number(words, "--groups", 0, 1, 4096));
    if (words.size() != 2)
      throw WrongArguments(std::string("usage: ") + name + " [--groups N] STRING FILE");
    request.wanted = words[0];
    request.path = words[1];
    if (request.wanted.empty() || request.wanted.size() > 4096)
      throw WrongArguments("STRING has from 1 to 4096 bytes");
    const std::uint64_t places = count(request);
    std::printf("%llu\n", static_cast<unsigned long long>(places));
    return places > 0 ? 0 : 1;
  });
}

// Throws if the device program failed.
inline std::uint64_t places_of(const SearchJob& job, const SearchRequest& request) {
  check_call(job.file, request.path);
  check_call(job.error, request.path);
  return job.places;
}

}  // namespace ferry::examples
