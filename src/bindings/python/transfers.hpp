// Transfers in Python: they keep their memory and files alive.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <nanobind/nanobind.h>

#include <ferry/bulk.hpp>

#include "base/direction.hpp"
#include "bindings/python/buffers.hpp"
#include "bindings/python/interpreter_lock.hpp"

namespace ferry::python {

// An object of the engine, whose destruction may wait for threads that want the interpreter's lock.
template <class T>
class Unlocked {
 public:
  template <class... Arguments>
  requires std::is_constructible_v<T, Arguments...>
  explicit Unlocked(Arguments&&... arguments)
      : value_(std::make_unique<T>(std::forward<Arguments>(arguments)...)) {}
  ~Unlocked() {
    const LockRelease unlocked;
    value_.reset();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};

using Engine = Unlocked<bulk::Engine>;
using File = Unlocked<bulk::File>;

// An offset in a file, in bytes. Raises TypeError, ValueError (negative), OverflowError.
std::uint64_t to_offset(nb::handle number);

// Reads or writes a batch and waits: the bytes of each part or a negative errno, and the failures
// as (part, path, offset, bytes, errno).
nb::tuple run_batch(const bulk::Engine& engine, nb::handle parts, Direction direction);

// Whole files, in the order of the paths: memory, or None; and the failures as (index, errno).
nb::tuple read_files(const bulk::Engine& engine, const std::vector<std::string>& paths);

void bind_transfers(nb::module_& module);

}  // namespace ferry::python
