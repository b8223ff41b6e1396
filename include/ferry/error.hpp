// The exception of host-side calls.
#pragma once

#include <string>
#include <system_error>
#include <utility>

namespace ferry {

// code() is the errno.
class Error : public std::system_error {
 public:
  Error(int error_number, const std::string& what)
      : std::system_error(error_number, std::system_category(), what) {}
  explicit Error(const std::system_error& error) : std::system_error(error) {}
  // what() without the text of the errno at its end.
  std::string reason() const {
    std::string text = what();
    const std::string tail = ": " + code().message();
    if (text.ends_with(tail)) text.resize(text.size() - tail.size());
    return text;
  }
};

// The same for a path; what() has `why` behind it, if there is more to say than the errno does.
class PathError : public Error {
 public:
  PathError(int error_number, std::string path, std::string why)
      : Error(error_number, why.empty() ? path : path + ": " + why),
        path_(std::move(path)),
        why_(std::move(why)) {}
  const std::string& path() const { return path_; }
  const std::string& why() const { return why_; }

 private:
  std::string path_;
  std::string why_;
};

}  // namespace ferry
