// A client library that is loaded when it is first needed, so that Ferry runs without it.
#pragma once

#include <stdexcept>
#include <string>

namespace ferry::storage {

// Why a path cannot be used: an errno for the call, and a line that says what to do about it.
class Unavailable : public std::runtime_error {
 public:
  Unavailable(int error_number, const std::string& line)
      : std::runtime_error(line), error_number_(error_number) {}
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// Throws Unavailable (ENOPKG) with a line that names the Debian package when the library or a
// function of it is not there. Loaded libraries stay until the process ends: they may have left
// threads or handlers behind.
class Library {
 public:
  Library(const std::string& file_name, std::string package);

  // Sets `function` to the library's function of that name.
  template <class Function>
  void load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string file_name_;
  std::string package_;
  void* handle_ = nullptr;
};

}  // namespace ferry::storage
