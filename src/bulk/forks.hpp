// The fork guard of base, under this room's names.
#pragma once

#include "base/forks.hpp"

namespace ferry::bulk {

using ferry::fork_generation;
using ferry::MadeHere;

}  // namespace ferry::bulk
