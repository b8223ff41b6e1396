// The fork guard of base, under the names that this room uses.
#pragma once

#include "base/forks.hpp"

namespace ferry::bulk {

using ferry::fork_generation;
using ferry::MadeHere;

}  // namespace ferry::bulk
