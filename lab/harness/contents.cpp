#include "harness/contents.hpp"

#include "harness/pattern.hpp"

namespace ferry::bench {

void report_wrong_byte(const std::string& path, std::uint64_t offset, Interface interface) {
  throw ContentsError("the contents of " + path + " are wrong at byte " + std::to_string(offset) +
                      ", by way of " + name_of(interface));
}

void compare_contents(const std::string& path, Interface interface, const void* found,
                      const void* expected, std::uint64_t bytes, std::uint64_t offset) {
  const std::uint64_t at = first_difference(found, expected, bytes);
  if (at != bytes) report_wrong_byte(path, offset + at, interface);
}

}  // namespace ferry::bench
