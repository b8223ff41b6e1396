#include "faults/allocations.hpp"

#include "support/depth.hpp"

namespace ferry::test {

NthPoint& allocations() {
  static NthPoint point;
  return point;
}

}  // namespace ferry::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static bool may_allocate() {
  return !ferry::test::PointsHere::count || !ferry::test::allocations().strikes();
}

#include "support/replaced_new.hpp"

#endif
