// What a transfer moves: the program's memory, or, where data is converted, a buffer of as many
// bytes as the file has for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <mpi.h>

#include <ferry/typemap.hpp>

#include "base/direction.hpp"
#include "mpiio/representations.hpp"
#include "mpiio/type_maps.hpp"

namespace ferry::mpiio {

// What a program passes to a transfer.
struct Arguments {
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

class MovedData {
 public:
  // The memory as it is. Throws what map_of() throws.
  explicit MovedData(const Arguments& arguments);
  // A buffer, which has the data if it is written. `swapped_bytes`: elements of this size will be
  // swapped where they are moved, which must not change them. `is_begun`: the program may free its
  // datatype before finish(). Throws std::bad_alloc and ferry::Error, ENOTSUP for memory of a GPU.
  MovedData(const Arguments& arguments, Direction direction,
            std::shared_ptr<const DataRepresentation> conversion, std::int64_t swapped_bytes,
            bool is_begun);
  MovedData(const MovedData&) = delete;
  MovedData& operator=(const MovedData&) = delete;

  // `count` copies of the map from here on.
  void* base() const { return base_; }
  const collective::TypeMap& map() const { return *map_; }
  std::int64_t count() const { return count_; }
  // Given the bytes that were moved: hands out what was read, and returns them as they count in
  // memory. Throws ferry::Error.
  std::int64_t finish(std::int64_t moved) const;

 private:
  MPI_Datatype type() const { return kept_type_ ? kept_type_->get() : arguments_.type; }
  void swap(std::int64_t bytes) const;

  Arguments arguments_;
  Direction direction_ = Direction::write;
  std::shared_ptr<const DataRepresentation> conversion_;  // null: none
  std::unique_ptr<const KeptType> kept_type_;             // where the program may free its own
  std::int64_t swapped_bytes_ = 1;
  std::unique_ptr<std::byte[]> buffer_;
  void* base_ = nullptr;
  std::shared_ptr<const collective::TypeMap> map_;
  std::int64_t count_ = 0;
};

}  // namespace ferry::mpiio
