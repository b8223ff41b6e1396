#include "storage/library.hpp"

#include <cerrno>
#include <utility>

#include <dlfcn.h>

namespace ferry::storage {

Library::Library(const std::string& file_name, std::string package)
    : file_name_(file_name), package_(std::move(package)) {
  handle_ = ::dlopen(file_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) fail("cannot be loaded");
}

void* Library::symbol(const char* name) const {
  void* found = ::dlsym(handle_, name);
  if (found == nullptr) fail(std::string("has no function ") + name);
  return found;
}

void Library::fail(const std::string& what) const {
  throw Unavailable(ENOPKG, file_name_ + " " + what + "; install the Debian package " + package_);
}

}  // namespace ferry::storage
