// Type maps.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/c/mpi/collective_handles.hpp"

namespace ferry::c {
namespace {

using collective::Extent;
using collective::TypeMap;

constexpr std::uint32_t dimensions_max = 64;
constexpr std::uint64_t extents_max = std::uint64_t{1} << 40;  // more than memory has

template <class Make>
int make_map(ferry_mpi_map** map, Make make) {
  return guarded([&] {
    *given(map, "map") = nullptr;
    *map = CollectiveMaps::mine().add(std::make_shared<const TypeMap>(make()));
    return 0;
  });
}

}  // namespace
}  // namespace ferry::c

using namespace ferry::c;

int ferry_mpi_map_contiguous(ferry_mpi_map** map, int64_t bytes) {
  return make_map(map, [&] { return TypeMap::contiguous(bytes); });
}

int ferry_mpi_map_strided(ferry_mpi_map** map, int64_t count, int64_t block_bytes,
                          int64_t stride_bytes) {
  return make_map(map, [&] { return TypeMap::strided(count, block_bytes, stride_bytes); });
}

int ferry_mpi_map_subarray(ferry_mpi_map** map, uint32_t dimensions, const int64_t* sizes,
                           const int64_t* subsizes, const int64_t* starts, int64_t element_bytes) {
  return make_map(map, [&] {
    if (dimensions == 0 || dimensions > dimensions_max) {
      refuse("dimensions: from 1 to " + std::to_string(dimensions_max));
    }
    return TypeMap::subarray(std::span(given(sizes, "sizes"), dimensions),
                             std::span(given(subsizes, "subsizes"), dimensions),
                             std::span(given(starts, "starts"), dimensions), element_bytes);
  });
}

int ferry_mpi_map_list(ferry_mpi_map** map, const ferry_mpi_extent* extents, uint64_t count,
                       int64_t period_bytes) {
  return make_map(map, [&] {
    if (count > extents_max) refuse("count: at most " + std::to_string(extents_max));
    if (count > 0) given(extents, "extents");
    std::vector<Extent> own;
    own.reserve(count);
    for (uint64_t i = 0; i < count; ++i)
      own.push_back({extents[i].offset_bytes, extents[i].bytes});
    return TypeMap::list(own, period_bytes);
  });
}

int ferry_mpi_map_datatype(ferry_mpi_map** map, MPI_Datatype datatype) {
  return make_map(map, [&] {
    require_mpi();
    if (datatype == MPI_DATATYPE_NULL) refuse("datatype is MPI_DATATYPE_NULL");
    return ferry::collective::typemap_of(datatype);
  });
}

int ferry_mpi_map_free(ferry_mpi_map* map) {
  return guarded([&] {
    CollectiveMaps::mine().take(map).reset();
    return 0;
  });
}
