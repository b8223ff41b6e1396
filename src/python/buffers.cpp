#include "python/buffers.hpp"

namespace ferry::python {

// A bare Py_buffer moves with its pointers only as long as they do not point into itself, which
// those of PyBUF_SIMPLE do not.
bool PinnedBuffer::take(nb::handle object, bool writable) {
  return PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0;
}

PinnedBuffer::PinnedBuffer(nb::handle object, bool writable) {
  if (PyObject_CheckBuffer(object.ptr()) != 0 && take(object, writable)) return;
  PyErr_Clear();
  view_ = Py_buffer{};
  // Says what is wrong, or finds memory that the protocol does not show.
  const nb::object memory =
      nb::module_::import_("ferry.memory").attr("as_buffer")(object, writable);
  if (!take(memory, writable)) {
    view_ = Py_buffer{};
    throw nb::python_error();
  }
}

}  // namespace ferry::python
