// What the handles of collective I/O stand for, and how one rank's wrong arguments become an error
// of all.
#pragma once

#include <cerrno>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include <ferry_mpi.h>

#include <ferry/collective.hpp>

#include "bindings/c/handles.hpp"

namespace ferry::c {

using CollectiveFiles = HandleTable<collective::File, ferry_mpi_file, 4>;
using CollectiveTransfers = HandleTable<collective::Transfer, ferry_mpi_transfer, 5>;
using CollectiveMaps = HandleTable<const collective::TypeMap, ferry_mpi_map, 6>;

// Without MPI the ranks cannot meet, and its functions end the process.
void require_mpi();

inline std::shared_ptr<collective::File> collective_file(const ferry_mpi_file* handle) {
  require_mpi();
  return CollectiveFiles::mine().get(handle);
}

// Why a rank cannot take part in a call.
struct Refusal {
  int error;
  std::string why;
};

// That of the exception being handled.
inline Refusal refusal_of_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code().value(), error.reason()};
  } catch (const std::bad_alloc&) {
    return {ENOMEM, "out of memory"};
  } catch (const std::exception& error) {
    return {EIO, error.what()};
  }
}

// `prepare()`, which makes this rank's arguments of a collective call. If it throws, the call fails
// on all ranks, which would otherwise wait.
template <class Prepare>
auto prepared(collective::File& file, collective::Call call, Prepare prepare) {
  try {
    return prepare();
  } catch (...) {
    const Refusal refusal = refusal_of_exception();
    file.refuse(call, refusal.why, refusal.error);
    throw;
  }
}

// A number that C++ has as a signed one.
template <class To = std::int64_t>
To bounded(std::uint64_t number, const char* name) {
  constexpr std::uint64_t number_max = std::uint64_t{static_cast<std::make_unsigned_t<To>>(-1)} / 2;
  if (number > number_max) {
    refuse(std::string(name) + ": at most " + std::to_string(number_max));
  }
  return static_cast<To>(number);
}

// A text for a caller's memory, as ferry_explain() writes it.
int64_t copy_text(const std::string& found, char* text, std::uint64_t text_bytes);

}  // namespace ferry::c
