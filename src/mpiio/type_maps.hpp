// Type maps of a program's datatypes.
#pragma once

#include <memory>

#include <mpi.h>

#include <ferry/typemap.hpp>

namespace ferry::mpiio {

// Keeps the map with the datatype, as an attribute, so that a datatype is converted once. Throws
// what collective::typemap_of throws. Thread-safe.
std::shared_ptr<const collective::TypeMap> map_of(MPI_Datatype type);

}  // namespace ferry::mpiio
