// Memory of Python objects, kept while transfers use it.
#pragma once

#include <cstdint>
#include <utility>

#include <nanobind/nanobind.h>

namespace ferry::python {

namespace nb = nanobind;

// A buffer exported by an object. Made and destroyed with the interpreter's lock held.
class PinnedBuffer {
 public:
  // Raises TypeError, ValueError or BufferError where the object has no contiguous memory, none
  // that may be written, or holds Python objects. Objects without the buffer protocol are turned
  // into one by ferry.memory.as_buffer; a GPU's memory, which the host must not touch, with
  // `gpu_too` only.
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
