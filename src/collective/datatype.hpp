// What an MPI datatype is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <mpi.h>

#include <ferry/typemap.hpp>

namespace ferry::collective {

// Whether it is predefined. Also of datatypes with large counts, where the MPI library has them.
bool is_named(MPI_Datatype type);

// Copies of a predefined datatype side by side in memory.
struct Items {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

// In the order of the type map. Throws ferry::Error like typemap_of().
std::vector<Items> items_of(MPI_Datatype datatype);

// The bytes of a predefined datatype in a file.
using SizeInFile = std::function<std::int64_t(MPI_Datatype)>;

// How data lies in a file in which predefined datatypes have other sizes than in memory: MPI 4.0,
// 14.5. Displacements and extents that a datatype has in bytes are those of the file, and others
// follow from the sizes. Throws like typemap_of(), and what `size_of` throws.
TypeMap typemap_in_file(MPI_Datatype datatype, const SizeInFile& size_of);

}  // namespace ferry::collective
