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

std::string one_of(const std::vector<std::string>& file_names) {
  std::string words;
  for (const std::string& name : file_names)
    words += (words.empty() ? "" : " or ") + name;
  return words;
}

Library::Library(const std::vector<std::string>& file_names, std::string advice)
    : file_name_(one_of(file_names)), advice_(std::move(advice)) {
  for (const std::string& name : file_names) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) continue;
    file_name_ = name;
    return;
  }
  fail("cannot be loaded");
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
