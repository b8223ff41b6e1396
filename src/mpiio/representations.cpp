#include "mpiio/representations.hpp"

#include <cstring>

#include "collective/datatype.hpp"

namespace ferry::mpiio {

std::int64_t DataRepresentation::size_in_file(MPI_Datatype type) const {
  std::int64_t bytes = 0;
  for (const collective::Items& items : collective::items_of(type))
    bytes += items.count * bytes_in_file(items.type);
  return bytes;
}

collective::TypeMap DataRepresentation::map_in_file(MPI_Datatype type) const {
  return collective::typemap_in_file(type,
                                     [this](MPI_Datatype named) { return bytes_in_file(named); });
}

std::shared_ptr<const DataRepresentation> representation_named(const char* name) {
  return std::strcmp(name, "external32") == 0 ? external32() : nullptr;
}

}  // namespace ferry::mpiio
