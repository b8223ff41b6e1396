#include "harness/mpi/access.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "storage/sync_file.hpp"

namespace ferry::bench::mpi {
namespace {

using collective::Phases;
using collective::Statistics;
using collective::Stopwatch;
using collective::TypeMap;

constexpr unsigned mode_of_new_files = 0600;

// Each rank its own, one request for each piece that lies together. The first rank makes the file
// before the others open it.
class Independent : public Access {
 public:
  using Access::Access;

  void open() final {
    int error = 0;
    if (team_.rank() == 0) error = open_file(writes() ? O_RDWR | O_CREAT : O_RDONLY);
    team_.agree(error, "opening " + part_.path());
    if (team_.rank() != 0) error = open_file(writes() ? O_RDWR : O_RDONLY);
    team_.agree(error, "opening " + part_.path());
  }

  void transfer(std::byte* data, std::uint64_t stream, std::uint64_t bytes) final {
    const Stopwatch watch(phases_.file_io_ns);
    part_.for_each_piece(stream, bytes, [&](std::uint64_t offset, std::uint64_t at, auto length) {
      move_all(data + (at - stream), length, offset);
    });
  }

  void sync() final {
    const Stopwatch watch(phases_.sync_ns);
    check(sync_file(), "syncing");
  }

  void close() final { check(close_file(), "closing"); }

  std::optional<Statistics> counted() final {
    Statistics result;
    std::array<double, 2> times = {phases_.file_io_ns, phases_.sync_ns};
    std::array<double, 2> longest = times;
    std::array<double, 3> counts = {static_cast<double>(requests_), static_cast<double>(bytes_),
                                    1.0};
    all_.sum(times);
    all_.maximum(longest);
    all_.sum(counts);
    result.mean.file_io_ns = times[0] / all_.size();
    result.mean.sync_ns = times[1] / all_.size();
    result.maximum.file_io_ns = longest[0];
    result.maximum.sync_ns = longest[1];
    result.counts.storage_requests = static_cast<std::uint64_t>(counts[0]);
    result.counts.storage_bytes = static_cast<std::uint64_t>(counts[1]);
    result.counts.storage_opens = static_cast<std::uint64_t>(counts[2]);
    result.writers = all_.size();
    return result;
  }

 protected:
  // An errno or 0.
  virtual int open_file(int flags) = 0;
  virtual int sync_file() = 0;
  virtual int close_file() = 0;
  // Bytes, or a negative errno.
  virtual std::int64_t move(std::byte* data, std::uint64_t bytes, std::uint64_t offset) = 0;

 private:
  void check(int error, const char* what) const {
    if (error != 0) throw Error(error, std::string(what) + " " + part_.path());
  }

  void move_all(std::byte* data, std::uint64_t bytes, std::uint64_t offset) {
    while (bytes > 0) {
      const std::int64_t moved = move(data, bytes, offset);
      if (moved == -EINTR) continue;
      if (moved < 0) check(static_cast<int>(-moved), writes() ? "writing" : "reading");
      if (moved == 0) throw Error(EIO, part_.path() + " ends at " + std::to_string(offset));
      ++requests_;
      bytes_ += static_cast<std::uint64_t>(moved);
      data += moved;
      offset += static_cast<std::uint64_t>(moved);
      bytes -= static_cast<std::uint64_t>(moved);
    }
  }

  Phases phases_;
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;
};

class PosixAccess final : public Independent {
 public:
  using Independent::Independent;
  ~PosixAccess() override {
    if (fd_ >= 0) ::close(fd_);
  }

 protected:
  int open_file(int flags) override {
    fd_ = ::open(part_.path().c_str(), flags | O_CLOEXEC, mode_of_new_files);
    return fd_ < 0 ? errno : 0;
  }
  int sync_file() override { return ::fsync(fd_) != 0 ? errno : 0; }
  int close_file() override { return ::close(std::exchange(fd_, -1)) != 0 ? errno : 0; }
  std::int64_t move(std::byte* data, std::uint64_t bytes, std::uint64_t offset) override {
    const auto at = static_cast<off_t>(offset);
    const ssize_t moved = writes() ? ::pwrite(fd_, data, bytes, at) : ::pread(fd_, data, bytes, at);
    return moved < 0 ? -errno : moved;
  }

 private:
  int fd_ = -1;
};

class NativeAccess final : public Independent {
 public:
  NativeAccess(const Teams& teams, const Part& part, storage::Storage& storage)
      : Independent(teams, part), file_(storage) {}

 protected:
  int open_file(int flags) override {
    return errno_of(file_.open(part_.path(), flags, mode_of_new_files));
  }
  int sync_file() override { return errno_of(file_.sync()); }
  int close_file() override { return errno_of(file_.close()); }
  std::int64_t move(std::byte* data, std::uint64_t bytes, std::uint64_t offset) override {
    return writes() ? file_.write(data, bytes, offset) : file_.read(data, bytes, offset);
  }

 private:
  static int errno_of(std::int64_t result) {
    return static_cast<int>(-std::min<std::int64_t>(result, 0));
  }

  storage::SyncFile file_;
};

// A view of the part, as MPI sees it. Blocks need none but their displacement.
class PartType {
 public:
  explicit PartType(const Part& part) {
    if (part.cell.pattern == Pattern::blocks) {
      displacement_ = static_cast<MPI_Offset>(part.index * part.bytes());
      return;
    }
    const auto piece_bytes = static_cast<MPI_Offset>(part.cell.piece_bytes);
    displacement_ = part.index * piece_bytes;
    MPI_Datatype piece = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(piece_bytes), MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, part.count * piece_bytes, &type_);
    MPI_Type_free(&piece);
    MPI_Type_commit(&type_);
  }
  ~PartType() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  PartType(const PartType&) = delete;
  PartType& operator=(const PartType&) = delete;

  MPI_Datatype type() const { return type_; }
  MPI_Offset displacement() const { return displacement_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  MPI_Offset displacement_ = 0;
};

// The MPI library's own MPI-IO, which tells nothing of what it does.
class MpiioAccess final : public Access {
 public:
  MpiioAccess(const Teams& teams, const Part& part) : Access(teams, part), type_(part) {}
  ~MpiioAccess() override {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }

  void open() override {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    const Cell& cell = part_.cell;
    if (cell.writers != 0) MPI_Info_set(info, "cb_nodes", std::to_string(cell.writers).c_str());
    if (cell.buffer_bytes != 0) {
      MPI_Info_set(info, "cb_buffer_size", std::to_string(cell.buffer_bytes).c_str());
    }
    const int mode = writes() ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY;
    const int opened =
        MPI_File_open(team_.communicator(), part_.path().c_str(), mode, info, &file_);
    int error = error_number(opened);
    if (error == 0) {
      error = error_number(
          MPI_File_set_view(file_, type_.displacement(), MPI_BYTE, type_.type(), "native", info));
    }
    MPI_Info_free(&info);
    team_.agree(error, "MPI-IO: opening " + part_.path());
  }

  bool is_collective() const override { return part_.cell.collective; }

  void transfer(std::byte* data, std::uint64_t stream, std::uint64_t bytes) override {
    const auto at = static_cast<MPI_Offset>(stream);
    const auto count = static_cast<int>(bytes);
    MPI_Status status;
    int result = MPI_SUCCESS;
    if (writes()) {
      result = part_.cell.collective
                   ? MPI_File_write_at_all(file_, at, data, count, MPI_BYTE, &status)
                   : MPI_File_write_at(file_, at, data, count, MPI_BYTE, &status);
    } else {
      result = part_.cell.collective
                   ? MPI_File_read_at_all(file_, at, data, count, MPI_BYTE, &status)
                   : MPI_File_read_at(file_, at, data, count, MPI_BYTE, &status);
    }
    check(result, writes() ? "writing" : "reading");
    int moved = 0;
    MPI_Get_count(&status, MPI_BYTE, &moved);
    if (moved != count) throw Error(EIO, "MPI-IO: a transfer of " + part_.path() + " is short");
  }

  void sync() override { check(MPI_File_sync(file_), "syncing"); }
  std::optional<Statistics> counted() override { return std::nullopt; }
  void close() override { check(MPI_File_close(&file_), "closing"); }

 private:
  static int error_number(int result) {
    if (result == MPI_SUCCESS) return 0;
    int kind = MPI_ERR_OTHER;
    MPI_Error_class(result, &kind);
    if (kind == MPI_ERR_NO_SPACE) return ENOSPC;
    if (kind == MPI_ERR_QUOTA) return EDQUOT;
    if (kind == MPI_ERR_ACCESS) return EACCES;
    if (kind == MPI_ERR_NO_SUCH_FILE) return ENOENT;
    if (kind == MPI_ERR_READ_ONLY) return EROFS;
    return EIO;
  }
  void check(int result, const char* what) const {
    const int error = error_number(result);
    if (error != 0) throw Error(error, std::string("MPI-IO: ") + what + " " + part_.path());
  }

  PartType type_;
  MPI_File file_ = MPI_FILE_NULL;
};

class FerryAccess final : public Access {
 public:
  using Access::Access;

  void open() override {
    const Cell& cell = part_.cell;
    collective::Options options;
    options.write_method = options.read_method = cell.method;
    // Each file has one writer where there is one for each.
    options.writers = cell.file_per_writer ? 1 : static_cast<int>(cell.writers);
    options.files = cell.file_per_writer ? static_cast<int>(cell.writers) : 0;
    options.buffer_bytes = static_cast<std::int64_t>(cell.buffer_bytes);
    options.mode = mode_of_new_files;
    const bool makes_stripes = writes() && cell.is_striped();
    if (makes_stripes) {
      options.alignment_bytes = static_cast<std::int64_t>(cell.stripe_bytes);
      options.stripe_count = static_cast<int>(cell.stripe_count);
    }
    file_.emplace(all_.communicator(), cell.path, writes() ? O_RDWR | O_CREAT : O_RDONLY, options);
    // The library takes them for wishes.
    if (makes_stripes && file_->stripes().stripe_bytes == 0) {
      throw Error(EOPNOTSUPP, "making " + part_.path() + " with its stripes");
    }
    const collective::Representation representation{cell.order,
                                                    static_cast<int>(cell.element_bytes)};
    file_->set_view(displacement(), view(), representation);
  }

  bool is_collective() const override { return true; }

  void transfer(std::byte* data, std::uint64_t stream, std::uint64_t bytes) override {
    const auto at = static_cast<std::int64_t>(stream);
    const std::int64_t moved = writes() ? file_->write_at_all(at, std::span(data, bytes))
                                        : file_->read_at_all(at, std::span(data, bytes));
    if (moved != static_cast<std::int64_t>(bytes)) {
      throw Error(EIO, "a transfer of " + part_.path() + " is short");
    }
  }

  void sync() override { file_->sync(); }
  void close() override { file_->close(); }

  std::optional<Statistics> counted() override { return file_->statistics(); }

 private:
  std::int64_t displacement() const {
    const bool blocks = part_.cell.pattern == Pattern::blocks;
    return static_cast<std::int64_t>(part_.index * (blocks ? part_.bytes() : piece_bytes()));
  }
  std::uint64_t piece_bytes() const { return part_.cell.piece_bytes; }
  TypeMap view() const {
    if (part_.cell.pattern == Pattern::blocks) return {};
    const auto bytes = static_cast<std::int64_t>(piece_bytes());
    return TypeMap::strided(1, bytes, bytes * part_.count);
  }

  std::optional<collective::File> file_;
};

}  // namespace

std::unique_ptr<Access> make_access(const Access::Teams& teams, const Part& part,
                                    storage::Storage& storage) {
  switch (part.cell.interface) {
    case Interface::mpiio:
      return std::make_unique<MpiioAccess>(teams, part);
    case Interface::ferry:
      return std::make_unique<FerryAccess>(teams, part);
    case Interface::native:
      return std::make_unique<NativeAccess>(teams, part, storage);
    case Interface::posix:
      break;
  }
  return std::make_unique<PosixAccess>(teams, part);
}

}  // namespace ferry::bench::mpi
