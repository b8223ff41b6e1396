// Include this in host programs. There are two kinds of file I/O, each owned by an object with its
// threads; nothing is global:
//
//   ferry::Runtime       programs on a device call files: <ferry/runtime.hpp>
//   ferry::bulk::Engine  the host transfers between files and any memory: <ferry/bulk.hpp>. The
//                        default is bulk::Engine::common().
//
// Include separately if needed: MPI's collective transfers (<ferry/collective.hpp>), GPUs
// (<ferry/gpu.hpp>, <ferry/cuda.hpp>), Fortran records and byte orders.
#pragma once

#include <ferry/bulk.hpp>
#include <ferry/runtime.hpp>
