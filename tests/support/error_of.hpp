// The error of a call that should fail.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <ferry/error.hpp>

namespace ferry::test {

// What a call throws; error 0: nothing.
struct ThrownError {
  int error = 0;
  std::string text;
};

template <class Body>
ThrownError failure_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code().value(), error.what()};
  }
  return {};
}

// The errno that a call throws, with a message that has `says` in it, or 0.
template <class Call>
int error_of(Call&& call, const std::string& says = "") {
  const ThrownError failure = failure_of(call);
  EXPECT_TRUE(failure.error == 0 || failure.text.find(says) != std::string::npos) << failure.text;
  return failure.error;
}

}  // namespace ferry::test
