// The name by which a process opens again what one of its descriptors is.
#pragma once

#include <cstdio>

namespace ferry::daemon {

struct DescriptorPath {
  char text[32];
  explicit DescriptorPath(int descriptor) {
    std::snprintf(text, sizeof text, "/proc/self/fd/%d", descriptor);
  }
};

}  // namespace ferry::daemon
