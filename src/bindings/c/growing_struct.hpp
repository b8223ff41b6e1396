// Structures that grow from version to version: they begin with their size, `struct_bytes`, as the
// program that was compiled with them knows it.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "bindings/c/errors.hpp"

namespace ferry::c {

// Reads the size alone: the rest need not be there.
template <class Struct>
std::uint64_t size_of_theirs(const Struct* theirs, const char* name) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, given(theirs, name), sizeof bytes);
  constexpr std::uint64_t bytes_max = 4096;
  if (bytes < sizeof bytes || bytes > bytes_max) {
    refuse(std::string(name) + ": struct_bytes is not the size of the structure");
  }
  return bytes;
}

// What a program passes: fields that it does not know keep the values of `defaults`. Throws E2BIG
// if it sets what this library does not know.
template <class Struct>
Struct read_struct(const Struct* theirs, const Struct& defaults, const char* name) {
  const std::uint64_t bytes = size_of_theirs(theirs, name);
  const auto* begin = reinterpret_cast<const unsigned char*>(theirs);
  if (bytes > sizeof(Struct) && std::any_of(begin + sizeof(Struct), begin + bytes,
                                            [](unsigned char byte) { return byte != 0; })) {
    refuse(std::string(name) + " has settings that this version of Ferry does not know", E2BIG);
  }
  Struct own = defaults;
  std::memcpy(static_cast<void*>(&own), begin, std::min<std::uint64_t>(bytes, sizeof own));
  return own;
}

// What a program gets: as much as it knows, and zeros for what this library does not know.
template <class Struct>
void write_struct(Struct* theirs, Struct own, const char* name) {
  const std::uint64_t bytes = size_of_theirs(theirs, name);
  own.struct_bytes = bytes;
  auto* begin = reinterpret_cast<unsigned char*>(theirs);
  const std::uint64_t known = std::min<std::uint64_t>(bytes, sizeof own);
  std::memcpy(begin, &own, known);
  std::memset(begin + known, 0, bytes - known);
}

}  // namespace ferry::c
