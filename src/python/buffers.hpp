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
  // Raises TypeError, ValueError or BufferError where the object has no contiguous memory, or none
  // that may be written. Objects without the buffer protocol are turned into one by
  // ferry.memory.as_buffer.
  PinnedBuffer(nb::handle object, bool writable);
  ~PinnedBuffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  void* data() const { return view_.buf; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(view_.len); }

 private:
  bool take(nb::handle object, bool writable);

  Py_buffer view_{};
};

}  // namespace ferry::python
