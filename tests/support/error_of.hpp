// The errno of a call that should fail.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <ferry/error.hpp>

namespace ferry::test {

// The errno that a call throws, with a message that has `says` in it, or 0.
template <class Call>
int error_of(Call&& call, const std::string& says = "") {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    return error.code().value();
  }
  return 0;
}

}  // namespace ferry::test
