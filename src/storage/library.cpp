#include "storage/library.hpp"

#include <cerrno>
#include <utility>

#include <dlfcn.h>

namespace ferry::storage {
namespace {

// The loader keeps its message for this thread until it was read twice, and the leak checker finds
// it in ending threads.
void forget_error() {
  ::dlerror();
  ::dlerror();
}

}  // namespace

Library::Library(const std::string& file_name, std::string advice)
    : file_name_(file_name), advice_(std::move(advice)) {
  handle_ = ::dlopen(file_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) fail("cannot be loaded");
}

Library::Symbol Library::symbol(const char* name) const {
  void* found = ::dlsym(handle_, name);
  if (found == nullptr) fail(std::string("has no function ") + name);
  return Symbol(found);
}

Library::Symbol Library::symbol_or_null(const char* name) const {
  void* found = ::dlsym(handle_, name);
  if (found == nullptr) forget_error();
  return Symbol(found);
}

void Library::fail(const std::string& what) const {
  forget_error();
  throw Unavailable(ENOPKG, file_name_ + " " + what + "; " + advice_);
}

}  // namespace ferry::storage
