// Work that may throw the error of a fault.
#pragma once

#include <cerrno>
#include <functional>
#include <new>
#include <utility>

#include <gtest/gtest.h>

#include <ferry/error.hpp>

#include "faults/nth_point.hpp"

namespace ferry::test {

class FaultyWork {
 public:
  FaultyWork(const NthPoint& point, std::function<bool(int error)> is_expected)
      : point_(point), is_expected_(std::move(is_expected)) {}

  // Returns false if `work` threw the error of the fault; any other is a failure.
  template <class Work>
  bool attempt(const char* what, const Work& work) const {
    try {
      const PointsHere counts(true);
      work();
      return true;
    } catch (const Error& error) {
      EXPECT_TRUE(point_.struck()) << what << " without a fault: " << error.what();
      EXPECT_TRUE(is_expected_(error.code().value())) << what << ": " << error.what();
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(point_.struck() && is_expected_(ENOMEM)) << what << ": no memory";
    }
    return false;
  }
  // Of one of several pieces of work.
  void expect(int error) const { EXPECT_TRUE(point_.struck() && is_expected_(error)) << error; }

 private:
  const NthPoint& point_;
  const std::function<bool(int error)> is_expected_;
};

}  // namespace ferry::test
