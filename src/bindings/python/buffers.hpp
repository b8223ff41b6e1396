// Memory of Python objects, kept alive during transfers.
#pragma once

#include <cstdint>
#include <utility>

#include <nanobind/nanobind.h>

namespace ferry::python {

namespace nb = nanobind;

// An object's exported buffer. Make and destroy it with the interpreter's lock held.
class PinnedBuffer {
 public:
  // Raises TypeError, ValueError or BufferError for objects without contiguous memory, with
  // read-only memory to write, or with Python objects. ferry.memory.as_buffer converts objects
  // without the buffer protocol; GPU memory, which the host must not touch, only with `gpu_too`.
  PinnedBuffer(nb::handle object, bool writable, bool gpu_too = false);
  ~PinnedBuffer() { release(); }
  PinnedBuffer(PinnedBuffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  void* data() const { return view_.buf; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(view_.len); }

 private:
  bool take(nb::handle object, bool writable);
  void release();

  Py_buffer view_{};
};

}  // namespace ferry::python
