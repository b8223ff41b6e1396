// Memory of Python objects, kept alive during transfers, and memory shown to Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

// What an object shows by the buffer protocol.
struct ShownMemory {
  const void* data;
  std::uint64_t bytes;
  bool writable = true;
};

template <class T, ShownMemory (*memory_of)(const T&)>
int show_memory(PyObject* self, Py_buffer* view, int flags) {
  const ShownMemory memory = memory_of(*nb::inst_ptr<T>(nb::handle(self)));
  return PyBuffer_FillInfo(view, self, const_cast<void*>(memory.data),
                           static_cast<Py_ssize_t>(memory.bytes), memory.writable ? 0 : 1, flags);
}

// For nb::type_slots: objects of T show `memory_of(object)`.
template <class T, ShownMemory (*memory_of)(const T&)>
inline PyType_Slot shows[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(show_memory<T, memory_of>)},
                              {0, nullptr}};

// The value that a name stands for. Raises ValueError with `otherwise`.
template <class T, std::size_t count>
T named(const std::pair<const char*, T> (&names)[count], const std::string& wanted,
        const char* otherwise) {
  for (const auto& [name, value] : names)
    if (name == wanted) return value;
  throw nb::value_error(otherwise);
}

}  // namespace ferry::python
