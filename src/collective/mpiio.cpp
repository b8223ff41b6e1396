#include "collective/mpiio.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>

namespace ferry::collective {
namespace {

int errno_of(int mpi_error) {
  if (mpi_error == MPI_SUCCESS) return 0;
  int error_class = 0;
  MPI_Error_class(mpi_error, &error_class);
  switch (error_class) {
    case MPI_ERR_NO_SPACE:
      return ENOSPC;
    case MPI_ERR_QUOTA:
      return EDQUOT;
    case MPI_ERR_ACCESS:
      return EACCES;
    case MPI_ERR_READ_ONLY:
      return EROFS;
    case MPI_ERR_NO_SUCH_FILE:
      return ENOENT;
    case MPI_ERR_NO_MEM:
      return ENOMEM;
    default:
      return EIO;
  }
}

// Extents as an MPI datatype of bytes; splits those too long for an int.
class ExtentsType {
 public:
  ExtentsType() = default;
  ~ExtentsType() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  ExtentsType(const ExtentsType&) = delete;
  ExtentsType& operator=(const ExtentsType&) = delete;

  void add(std::int64_t offset, std::int64_t bytes) {
    for (std::int64_t done = 0; done < bytes; done += MpiIo::bytes_max) {
      offsets_.push_back(static_cast<MPI_Aint>(offset + done));
      lengths_.push_back(static_cast<int>(std::min(bytes - done, MpiIo::bytes_max)));
    }
  }
  // period_bytes < 0: as the extents end.
  MPI_Datatype make(std::int64_t period_bytes) {
    MPI_Type_create_hindexed(static_cast<int>(lengths_.size()), lengths_.data(), offsets_.data(),
                             MPI_BYTE, &type_);
    if (period_bytes >= 0) {
      MPI_Datatype resized = MPI_DATATYPE_NULL;
      MPI_Type_create_resized(type_, 0, static_cast<MPI_Aint>(period_bytes), &resized);
      MPI_Type_free(&type_);
      type_ = resized;
    }
    MPI_Type_commit(&type_);
    return type_;
  }

 private:
  std::vector<MPI_Aint> offsets_;
  std::vector<int> lengths_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

MpiIo::~MpiIo() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (is_open() && finalized == 0) close();
}

int MpiIo::open(const Team& team, const std::string& path, int flags, MPI_Info hints) {
  const int access = flags & O_ACCMODE;
  int mode = MPI_MODE_RDWR;
  if (access == O_RDONLY) mode = MPI_MODE_RDONLY;
  if (access == O_WRONLY) mode = MPI_MODE_WRONLY;
  MPI_Info own = MPI_INFO_NULL;
  if (hints != MPI_INFO_NULL) {
    MPI_Info_dup(hints, &own);
  } else {
    MPI_Info_create(&own);
  }
  MPI_Info_set(own, mpiio_hint, "disable");
  const int error = errno_of(MPI_File_open(team.communicator(), path.c_str(), mode, own, &file_));
  MPI_Info_free(&own);
  return error;
}

int MpiIo::close() {
  return errno_of(MPI_File_close(&file_));
}

int MpiIo::sync() {
  return errno_of(MPI_File_sync(file_));
}

int MpiIo::set_view(const FileView& view) {
  ExtentsType type;
  MPI_Datatype file_type = MPI_BYTE;
  if (!view.map.is_dense() && view.map.data_bytes() > 0) {
    for (const Extent& extent : view.map.extents())
      type.add(extent.offset, extent.bytes);
    file_type = type.make(view.map.period_bytes());
  }
  const std::int64_t begin =
      view.displacement + (view.map.is_dense() ? view.map.extents()[0].offset : 0);
  return errno_of(MPI_File_set_view(file_, begin, MPI_BYTE, file_type, "native", MPI_INFO_NULL));
}

int MpiIo::transfer(const RankRequest& request, Direction direction, std::int64_t pieces) {
  int error = 0;
  const bool converts = request.memory.converts();
  const std::int64_t bytes_each = piece_bytes(request.view);
  std::vector<std::byte> converted(
      converts ? static_cast<std::size_t>(std::min(bytes_each, request.bytes)) : 0);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t at = std::min(piece * bytes_each, request.bytes);
    const std::int64_t bytes = std::min(bytes_each, request.bytes - at);
    ExtentsType type;
    MPI_Datatype memory_type = MPI_BYTE;
    void* base = nullptr;
    auto count = static_cast<int>(bytes);
    if (bytes > 0) base = request.memory.at(at);
    if (converts) {
      base = converted.data();
      if (direction == Direction::write) request.memory.pack(at, bytes, converted.data());
    } else if (bytes > 0 && !request.memory.together(at, bytes)) {
      const auto* origin = static_cast<const std::byte*>(base);
      request.memory.for_each(at, bytes, [&](std::byte* data, std::int64_t length) {
        type.add(data - origin, length);
      });
      memory_type = type.make(-1);
      count = 1;
    }
    MPI_Status status;
    const int result =
        direction == Direction::write
            ? MPI_File_write_at_all(file_, request.stream + at, base, count, memory_type, &status)
            : MPI_File_read_at_all(file_, request.stream + at, base, count, memory_type, &status);
    int moved = 0;
    if (result == MPI_SUCCESS) MPI_Get_elements(&status, MPI_BYTE, &moved);
    keep(error, errno_of(result));
    if (error == 0 && moved < bytes) error = direction == Direction::write ? EIO : ENODATA;
    if (error == 0 && converts && direction == Direction::read)
      request.memory.unpack(at, bytes, converted.data());
  }
  return error;
}

}  // namespace ferry::collective
