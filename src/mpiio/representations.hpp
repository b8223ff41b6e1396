// Data representations of files that Ferry has alone (MPI 4.0, 14.5): how data in memory becomes
// the bytes of a file, where these are not those of memory with each number's bytes reversed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <mpi.h>

#include <ferry/typemap.hpp>

namespace ferry::mpiio {

class DataRepresentation {
 public:
  virtual ~DataRepresentation() = default;
  DataRepresentation() = default;
  DataRepresentation(const DataRepresentation&) = delete;
  DataRepresentation& operator=(const DataRepresentation&) = delete;

  // Whether converting may fail on one rank alone.
  virtual bool may_fail() const { return false; }
  // The bytes of a predefined datatype in the file. Throws ferry::Error if it has none there.
  virtual std::int64_t bytes_in_file(MPI_Datatype named) const = 0;
  // Converts copies of a datatype that lie side by side in memory. Both throw ferry::Error.
  virtual void to_file(const void* memory, std::int64_t count, MPI_Datatype type,
                       std::byte* file) const = 0;
  // What is there of them: `bytes` may end within one. Returns the bytes of the whole predefined
  // datatypes, as MPI counts those of memory.
  virtual std::int64_t from_file(void* memory, std::int64_t count, MPI_Datatype type,
                                 const std::byte* file, std::int64_t bytes) const = 0;

  // The bytes of any datatype in the file, and from one copy to the next.
  std::int64_t size_in_file(MPI_Datatype type) const;
  std::int64_t extent_in_file(MPI_Datatype type) const { return map_in_file(type).period_bytes(); }
  collective::TypeMap map_in_file(MPI_Datatype type) const;
};

// What a program registers (MPI 4.0, 14.5.3): the functions by which its data is converted, with an
// int or an MPI_Count. Null: the file has the bytes of memory.
struct ConversionFunctions {
  using Convert = std::function<int(void* memory, MPI_Datatype type, MPI_Count count, void* file,
                                    MPI_Offset position)>;
  Convert read;
  Convert write;
  std::function<int(MPI_Datatype named, MPI_Aint* extent)> extent;
  MPI_Count count_max = 0;  // in a call
};

// Returns whether the name was free. They stay.
bool register_representation(const std::string& name, ConversionFunctions functions);

// Null: there is none of that name, or it converts nothing.
std::shared_ptr<const DataRepresentation> representation_named(const char* name);

// The size of the numbers that a datatype is made of, if all have the same, and in "external32" the
// same as in memory with reversed bytes; else 0.
std::int64_t element_bytes(MPI_Datatype type);

// "external32" for all datatypes: MPI 4.0, 14.5.2.
std::shared_ptr<const DataRepresentation> external32();

}  // namespace ferry::mpiio
