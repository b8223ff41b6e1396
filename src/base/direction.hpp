// Which way bytes go between memory and a file.
#pragma once

#include <cstdint>

namespace ferry {

enum class Direction : std::uint8_t { read, write };

}  // namespace ferry
