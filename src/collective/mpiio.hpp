// Method mpiio: the MPI library's own MPI-IO, with the same views.
#pragma once

#include <string>

#include "collective/context.hpp"

namespace ferry::collective {

// Tells `ferry run --mpi-io` ("disable") to leave a file to the MPI library.
inline constexpr const char* mpiio_hint = "ferry_mpiio";

class MpiIo {
 public:
  MpiIo() = default;
  ~MpiIo();
  MpiIo(const MpiIo&) = delete;
  MpiIo& operator=(const MpiIo&) = delete;

  bool is_open() const { return file_ != MPI_FILE_NULL; }
  // Collective; each returns this rank's errno. The file exists.
  int open(const Team& team, const std::string& path, int flags, MPI_Info hints);
  int close();
  // Leaves the file open: closing would wait for the other ranks.
  void abandon() { file_ = MPI_FILE_NULL; }
  int sync();
  int set_view(const FileView& view);
  // `pieces`: the number of calls, of piece_bytes(view) each, that the rank with the most data
  // needs.
  int transfer(const RankRequest& request, Direction direction, std::int64_t pieces);

  // The largest transfer of one call: MPI-IO's counts are int, and converted data is buffered.
  static std::int64_t piece_bytes(const FileView& view) {
    return view.swapped_bytes > 1 ? converted_bytes_max : bytes_max;
  }

  static constexpr std::int64_t bytes_max = 1 << 30;
  static constexpr std::int64_t converted_bytes_max = 16 << 20;

 private:
  MPI_File file_ = MPI_FILE_NULL;
};

}  // namespace ferry::collective
