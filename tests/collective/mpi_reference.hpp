// The MPI library's MPI-IO as the oracle: one process, one view, plain independent calls.
#pragma once

#include <stdexcept>

#include <mpi.h>

#include <ferry/typemap.hpp>

#include "collective/world.hpp"

namespace ferry::test {

inline void require_mpi(int result) {
  if (result != MPI_SUCCESS) throw std::runtime_error("MPI-IO of the library fails");
}

// ROMIO sieves strided writes, and if the file is shorter, gaps get whatever its memory held.
struct NoSieving : Hints {
  NoSieving() : Hints({{"romio_ds_write", "disable"}}) {}
};

// A committed datatype of bytes, freed at the end.
class ByteType {
 public:
  explicit ByteType(const collective::TypeMap& map) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> offsets;
    for (const collective::Extent& extent : map.extents()) {
      lengths.push_back(static_cast<int>(extent.bytes));
      offsets.push_back(static_cast<MPI_Aint>(extent.offset));
    }
    MPI_Datatype plain = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(),
                             MPI_BYTE, &plain);
    MPI_Type_create_resized(plain, 0, static_cast<MPI_Aint>(map.period_bytes()), &type_);
    MPI_Type_free(&plain);
    MPI_Type_commit(&type_);
  }
  ~ByteType() { MPI_Type_free(&type_); }
  ByteType(const ByteType&) = delete;
  ByteType& operator=(const ByteType&) = delete;
  operator MPI_Datatype() const { return type_; }  // NOLINT: used in place of one

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

inline void write_by_mpi(const std::string& path, std::int64_t displacement, MPI_Datatype view,
                         std::int64_t offset, const void* base, MPI_Datatype memory, int count) {
  MPI_File file = MPI_FILE_NULL;
  const NoSieving hints;
  require_mpi(
      MPI_File_open(MPI_COMM_SELF, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
  require_mpi(MPI_File_set_view(file, displacement, MPI_BYTE, view, "native", hints));
  require_mpi(MPI_File_write_at(file, offset, base, count, memory, MPI_STATUS_IGNORE));
  require_mpi(MPI_File_close(&file));
}

}  // namespace ferry::test
