// Memory of other packages' tensors, GPU memory and GpuRuntime in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace ferry::python {

void bind_tensors(nanobind::module_& module);
void bind_gpu_runtime(nanobind::module_& module);

}  // namespace ferry::python
