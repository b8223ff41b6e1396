// Transfers in Python: they keep their memory and files alive.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <nanobind/nanobind.h>

#include <ferry/bulk.hpp>

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

// A batch of (file, buffer, offset).
struct TransferBatch {
  TransferBatch(nb::handle parts, bool writing);
  std::vector<bulk::Part> parts;
  std::vector<PinnedBuffer> buffers;
  nb::object files;  // keeps them
};

// A transfer in flight. Its memory stays until it has ended, even if this object does not.
class PythonTransfer {
 public:
  PythonTransfer(const bulk::Engine& engine, nb::handle parts, bool writing, nb::object on_end);
  ~PythonTransfer();
  PythonTransfer(const PythonTransfer&) = delete;
  PythonTransfer& operator=(const PythonTransfer&) = delete;

  bool done() const;
  // Returns false on timeout. Nothing: no timeout.
  bool wait(std::optional<double> timeout_s) const;
  void cancel() const;
  // Once done: returns buffers and files to their owners immediately, without waiting for the
  // engine's thread.
  void let_go() const;
  // Once done: bytes of each part or a negative errno.
  std::vector<std::int64_t> results() const;
  nb::list failures() const;
  nb::tuple progress() const;

 private:
  struct Kept;
  static void end(Kept& kept);

  const std::shared_ptr<Kept> kept_;
  std::shared_ptr<bulk::Future> future_;
};

// Reads or writes a batch and waits: the bytes of each part or a negative errno, and the failures
// as (part, path, offset, bytes, errno).
nb::tuple run_batch(const bulk::Engine& engine, nb::handle parts, bool writing);

// Whole files, in the order of the paths: memory, or None; and the failures as (index, errno).
nb::tuple read_files(const bulk::Engine& engine, const std::vector<std::string>& paths);

void bind_transfers(nb::module_& module);

}  // namespace ferry::python
