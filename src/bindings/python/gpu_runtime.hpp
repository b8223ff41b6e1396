// GpuRuntime in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace ferry::python {

void bind_gpu_runtime(nanobind::module_& module);

}  // namespace ferry::python
