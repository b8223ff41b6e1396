// The name by which a process opens again what one of its descriptors is. Safe in signal handlers.
#pragma once

#include <charconv>
#include <iterator>
#include <string_view>

namespace ferry::daemon {

struct DescriptorPath {
  char text[32] = "/proc/self/fd/";
  explicit DescriptorPath(int descriptor) {
    std::to_chars(text + std::string_view(text).size(), std::end(text) - 1, descriptor);
  }
};

}  // namespace ferry::daemon
