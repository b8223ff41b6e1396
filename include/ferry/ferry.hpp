// What a host program includes. There are two kinds of file I/O here, each with an object of its
// own that owns the threads, and neither with anything global:
//
//   ferry::Runtime       programs on a device call files: <ferry/runtime.hpp>
//   ferry::bulk::Engine  the host transfers between files and any memory: <ferry/bulk.hpp>. Where
//                        none is named, bulk::Engine::common() is used.
//
// MPI's collective transfers (<ferry/collective.hpp>), GPUs (<ferry/gpu.hpp>, <ferry/cuda.hpp>) and
// files with Fortran records or a byte order of their own are included by those who need them.
#pragma once

#include <ferry/bulk.hpp>
#include <ferry/runtime.hpp>
