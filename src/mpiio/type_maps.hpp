// A program's datatypes: their type maps, and those that outlive the program's handle.
#pragma once

#include <cstdint>
#include <memory>

#include <mpi.h>

#include <ferry/typemap.hpp>

namespace ferry::mpiio {

// Keeps the map with the datatype, as an attribute, so that a datatype is converted once. Throws
// what collective::typemap_of throws. Thread-safe.
std::shared_ptr<const collective::TypeMap> map_of(MPI_Datatype type);

// The bytes of its data, and from one copy to the next.
std::int64_t size_of(MPI_Datatype type);
std::int64_t period_of(MPI_Datatype type);

// A copy, unless the datatype is predefined, as MPI's own functions return them.
MPI_Datatype copy_of(MPI_Datatype type);

// One that the program may free.
class KeptType {
 public:
  explicit KeptType(MPI_Datatype type) : type_(copy_of(type)) {}
  ~KeptType();
  KeptType(const KeptType&) = delete;
  KeptType& operator=(const KeptType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

}  // namespace ferry::mpiio
