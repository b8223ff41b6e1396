// The exception of host-side calls.
#pragma once

#include <string>
#include <system_error>

namespace ferry {

// code() is the errno.
class Error : public std::system_error {
 public:
  Error(int error_number, const std::string& what)
      : std::system_error(error_number, std::system_category(), what) {}
  // what() without the text of the errno at its end.
  std::string reason() const {
    std::string text = what();
    const std::string tail = ": " + code().message();
    if (text.ends_with(tail)) text.resize(text.size() - tail.size());
    return text;
  }
};

}  // namespace ferry
