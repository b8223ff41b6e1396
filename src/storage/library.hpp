// A client library that is loaded on first use, so that Ferry runs without it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

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

// The base of a struct whose members are the library's functions:
//   decltype(::nfs_open)* nfs_open = symbol("nfs_open");
// The first of `file_names` that can be loaded is used. Throws Unavailable (ENOPKG) with a line
// that ends with `advice` when none can, or a function is not there. Loaded libraries stay until
// the process ends: they may have left threads or handlers behind.
class Library {
 public:
  Library(const std::vector<std::string>& file_names, std::string advice);
  const std::string& file_name() const { return file_name_; }

 protected:
  // Converts to a pointer to the library's symbol of that name.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    template <class Type>
    operator Type*() const {  // NOLINT(google-explicit-constructor): that is what it is for
      return reinterpret_cast<Type*>(address_);
    }

   private:
    void* address_;
  };
  Symbol symbol(const char* name) const;
  // Null if the library has none.
  Symbol symbol_or_null(const char* name) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string file_name_;
  std::string advice_;
  void* handle_ = nullptr;
};

// File names as words.
std::string one_of(const std::vector<std::string>& file_names);

// The advice for a library that Debian has.
inline std::string install_package(const std::string& name) {
  return "install the Debian package " + name;
}

}  // namespace ferry::storage
