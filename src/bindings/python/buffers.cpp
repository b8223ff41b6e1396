#include "bindings/python/buffers.hpp"

#include <cstring>

namespace ferry::python {
namespace {

// Whether its elements may be Python objects, which bytes of a file must never become. "O" may also
// be part of a field's name, so ferry.memory.as_buffer decides.
bool may_hold_objects(nb::handle object, const Py_buffer& view) {
  if (view.itemsize < static_cast<Py_ssize_t>(sizeof(PyObject*))) return false;
  Py_buffer described{};
  if (PyObject_GetBuffer(object.ptr(), &described, PyBUF_ND | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return true;
  }
  const bool may = described.format != nullptr && std::strchr(described.format, 'O') != nullptr;
  PyBuffer_Release(&described);
  return may;
}

}  // namespace

// A bare Py_buffer can move unless its pointers point into itself; those of PyBUF_SIMPLE do not.
bool PinnedBuffer::take(nb::handle object, bool writable) {
  return PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0;
}

void PinnedBuffer::release() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
  view_ = Py_buffer{};
}

PinnedBuffer::PinnedBuffer(nb::handle object, bool writable, bool gpu_too) {
  if (PyObject_CheckBuffer(object.ptr()) != 0 && take(object, writable)) {
    if (!may_hold_objects(object, view_)) return;
    release();
  }
  PyErr_Clear();
  view_ = Py_buffer{};
  // Explains the problem, or finds memory that the protocol does not show.
  const nb::object memory =
      nb::module_::import_("ferry.memory").attr("as_buffer")(object, writable, gpu_too);
  if (!take(memory, writable)) {
    view_ = Py_buffer{};
    throw nb::python_error();
  }
}

}  // namespace ferry::python
