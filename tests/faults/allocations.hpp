// Allocations of C++ (operator new, in all its forms) of which one fails. Nothing fails in builds
// with a sanitizer, whose allocators do not.
#pragma once

#include "faults/nth_point.hpp"

namespace ferry::test {

// The point of all of them.
NthPoint& allocations();

}  // namespace ferry::test
