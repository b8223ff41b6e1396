// Errors as OSError.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

namespace ferry::python {

// Sets OSError, which selects a subclass by the errno. A path becomes the error's filename.
inline void raise_os_error(int error_number, const std::string& text,
                           const std::string* path = nullptr) {
  namespace nb = nanobind;
  nb::object name = nb::none();
  if (path != nullptr) {
    name = nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(path->data(), static_cast<Py_ssize_t>(path->size())));
  }
  const nb::object error = nb::steal(PyObject_CallFunction(
      PyExc_OSError, path != nullptr ? "isO" : "is", error_number, text.c_str(), name.ptr()));
  if (error.is_valid())
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

}  // namespace ferry::python
