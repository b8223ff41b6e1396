#include "harness/mpi/access.hpp"

#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>

#include "harness/file_access.hpp"
#include "harness/usage.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench {
namespace {

using collective::Method;
using collective::Statistics;

static_assert(static_cast<Method>(CollectiveMethod::aggregate) == Method::aggregate &&
              static_cast<Method>(CollectiveMethod::mpiio) == Method::mpiio);

constexpr unsigned mode_of_new_files = 0600;

int direct_flag(const Cell& cell) {
  return cell.direct ? O_DIRECT : 0;
}

// A file of Ferry's storage by blocking calls. Cold reads are those of a new client.
class NativeAccess final : public FileAccess {
 public:
  NativeAccess(const RankPart& part, storage::Storage& storage)
      : FileAccess(part.path()),
        own_(part.cell.cold ? storage::make_router() : nullptr),
        file_(own_ ? *own_ : storage) {}

  void open(int flags) override { check(file_.open(path(), flags, mode_of_new_files), "opening"); }
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return file_.read(data, bytes, offset);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    return file_.write(data, bytes, offset);
  }
  void sync() override { check(file_.sync(), "syncing"); }
  void close() override { check(file_.close(), "closing"); }

 private:
  const std::unique_ptr<storage::Storage> own_;
  storage::SyncFile file_;
};

// Each rank its own, one request for each piece that lies together. The first rank makes the file
// before the others open it.
class Independent final : public RankAccess {
 public:
  Independent(const Teams& teams, const RankPart& part, std::unique_ptr<FileAccess> file)
      : RankAccess(teams, part), file_(std::move(file)) {}

  void open() override {
    const bool first = team_.rank() == 0;
    const int flags = (writes() ? O_RDWR : O_RDONLY) | direct_flag(part_.cell);
    team_.agree_on("opening " + part_.path(), [&] {
      if (first) file_->open(writes() ? flags | O_CREAT : flags);
    });
    team_.agree_on("opening " + part_.path(), [&] {
      if (!first) file_->open(flags);
    });
  }

  void transfer(MeasuredOperation operation, std::byte* data, std::uint64_t at,
                std::uint64_t bytes) override {
    const std::uint64_t begin_ns = now_ns();
    if (part_.cell.pattern == RankPattern::blocks) {
      move(operation, data, at, bytes);
    } else {
      part_.for_each_piece(at, bytes, [&](std::uint64_t offset, std::uint64_t stream, auto length) {
        move(operation, data + (stream - at), offset, length);
      });
    }
    io_ns_ += now_ns() - begin_ns;
  }

  void sync() override {
    const std::uint64_t begin_ns = now_ns();
    file_->sync();
    sync_ns_ = now_ns() - begin_ns;
  }

  void close() override { file_->close(); }

  std::optional<Statistics> counted() override {
    std::uint64_t longest_io_ns = io_ns_;
    std::uint64_t longest_sync_ns = sync_ns_;
    all_.maximum({&longest_io_ns, &longest_sync_ns});
    all_.sum({&io_ns_, &sync_ns_, &requests_, &bytes_});
    Statistics result;
    result.mean.file_io_ns = static_cast<double>(io_ns_) / all_.size();
    result.mean.sync_ns = static_cast<double>(sync_ns_) / all_.size();
    result.maximum.file_io_ns = static_cast<double>(longest_io_ns);
    result.maximum.sync_ns = static_cast<double>(longest_sync_ns);
    result.counts.storage_requests = requests_;
    result.counts.storage_bytes = bytes_;
    result.counts.storage_opens = all_.size();
    result.writers = static_cast<int>(all_.size());
    return result;
  }

 private:
  void move(MeasuredOperation operation, std::byte* data, std::uint64_t offset,
            std::uint64_t bytes) {
    const std::int64_t moved = operation == MeasuredOperation::write
                                   ? file_->write(data, bytes, offset)
                                   : file_->read(data, bytes, offset);
    const int error = moved < 0 ? static_cast<int>(-moved) : EIO;  // it ends before
    if (moved != static_cast<std::int64_t>(bytes)) throw Error(error, part_.path());
    ++requests_;
    bytes_ += bytes;
  }

  const std::unique_ptr<FileAccess> file_;
  std::uint64_t io_ns_ = 0;
  std::uint64_t sync_ns_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;
};

// A view of the part, as MPI sees it. Blocks need none: their transfers say where they go.
class PartType {
 public:
  explicit PartType(const RankPart& part) {
    const RankPattern pattern = part.cell.pattern;
    if (pattern == RankPattern::blocks) return;
    if (pattern == RankPattern::interleaved) {
      const auto piece_bytes = static_cast<MPI_Offset>(part.cell.piece_bytes);
      displacement_ = part.index * piece_bytes;
      MPI_Datatype piece = MPI_DATATYPE_NULL;
      MPI_Type_contiguous(static_cast<int>(piece_bytes), MPI_BYTE, &piece);
      MPI_Type_create_resized(piece, 0, part.count * piece_bytes, &type_);
      MPI_Type_free(&piece);
    } else {
      const Subarray block(part.cell.total_bytes, part.index, part.count);
      MPI_Type_create_subarray(4, block.sizes.data(), block.subsizes.data(), block.starts.data(),
                               MPI_ORDER_C, MPI_DOUBLE, &type_);
    }
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
class MpiioAccess final : public RankAccess {
 public:
  MpiioAccess(const Teams& teams, const RankPart& part) : RankAccess(teams, part), type_(part) {}
  ~MpiioAccess() override {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }

  void open() override {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    const Cell& cell = part_.cell;
    if (cell.writers != 0) MPI_Info_set(info, "cb_nodes", std::to_string(cell.writers).c_str());
    if (cell.writer_buffer_bytes != 0) {
      MPI_Info_set(info, "cb_buffer_size", std::to_string(cell.writer_buffer_bytes).c_str());
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

  void transfer(MeasuredOperation operation, std::byte* data, std::uint64_t begin,
                std::uint64_t bytes) override {
    const auto at = static_cast<MPI_Offset>(begin);
    const auto count = static_cast<int>(has_failed() ? 0 : bytes);
    MPI_Status status;
    int result = MPI_SUCCESS;
    if (operation == MeasuredOperation::write) {
      result = part_.cell.collective
                   ? MPI_File_write_at_all(file_, at, data, count, MPI_BYTE, &status)
                   : MPI_File_write_at(file_, at, data, count, MPI_BYTE, &status);
    } else {
      result = part_.cell.collective
                   ? MPI_File_read_at_all(file_, at, data, count, MPI_BYTE, &status)
                   : MPI_File_read_at(file_, at, data, count, MPI_BYTE, &status);
    }
    const bool alone = part_.cell.collective;
    if (const int error = error_number(result); error != 0) {
      return fail(Error(error, "MPI-IO: moving data of " + part_.path()), alone);
    }
    int moved = 0;
    MPI_Get_count(&status, MPI_BYTE, &moved);
    if (moved != count)
      fail(Error(EIO, "MPI-IO: a transfer of " + part_.path() + " is short"), alone);
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

class FerryAccess final : public RankAccess {
 public:
  FerryAccess(const Teams& teams, const RankPart& part)
      : RankAccess(teams, part),
        type_(part),
        collective_(!part.cell.streams || part.cell.collective) {}

  void open() override {
    const Cell& cell = part_.cell;
    collective::Options options;
    options.write_method = options.read_method = static_cast<Method>(cell.method);
    // Each file has one writer where there is one for each.
    options.writers = cell.file_per_writer ? 1 : static_cast<int>(cell.writers);
    options.files = cell.file_per_writer ? static_cast<int>(cell.writers) : 0;
    options.buffer_bytes = static_cast<std::int64_t>(cell.writer_buffer_bytes);
    options.mode = mode_of_new_files;
    if (!cell.sieving) options.read_sieving = options.write_sieving = collective::Sieving::disabled;
    const bool makes_stripes = writes() && cell.is_striped();
    if (makes_stripes) {
      options.alignment_bytes = static_cast<std::int64_t>(cell.stripe_bytes);
      options.stripe_count = static_cast<int>(cell.stripe_count);
    }
    const int flags = (writes() ? O_RDWR | O_CREAT : O_RDONLY) | direct_flag(cell);
    if (cell.file_per_thread) {
      file_.emplace(team_.communicator(), part_.path(), flags, options);
    } else {
      file_.emplace(all_.communicator(), cell.path, flags, options);
    }
    // The library takes them for wishes.
    if (makes_stripes && file_->stripes().stripe_bytes == 0) {
      throw Error(EOPNOTSUPP, "making " + part_.path() + " with its stripes");
    }
    const collective::Representation representation{cell.order,
                                                    static_cast<int>(cell.element_bytes)};
    file_->set_view(type_.displacement(), collective::typemap_of(type_.type()), representation);
  }

  void transfer(MeasuredOperation operation, std::byte* data, std::uint64_t begin,
                std::uint64_t bytes) override {
    const auto at = static_cast<std::int64_t>(begin);
    const std::int64_t moved = move(operation, at, std::span(data, bytes));
    if (moved != static_cast<std::int64_t>(bytes)) {
      fail(Error(EIO, "a transfer of " + part_.path() + " is short"), collective_);
    }
  }

  void sync() override { file_->sync(); }
  void close() override { file_->close(); }

  // Of files of their own each rank knows what it has done itself.
  std::optional<Statistics> counted() override {
    if (part_.cell.file_per_thread) return std::nullopt;
    return file_->statistics();
  }

 private:
  std::int64_t move(MeasuredOperation operation, std::int64_t at, std::span<std::byte> data) {
    if (operation == MeasuredOperation::write)
      return collective_ ? file_->write_at_all(at, data) : file_->write_at(at, data);
    return collective_ ? file_->read_at_all(at, data) : file_->read_at(at, data);
  }

  PartType type_;
  const bool collective_;
  std::optional<collective::File> file_;
};

}  // namespace

std::unique_ptr<RankAccess> make_access(const RankAccess::Teams& teams, const RankPart& part,
                                        storage::Storage& storage) {
  switch (part.cell.interface) {
    case Interface::mpiio:
      return std::make_unique<MpiioAccess>(teams, part);
    case Interface::ferry:
      return std::make_unique<FerryAccess>(teams, part);
    case Interface::native:
      return std::make_unique<Independent>(teams, part,
                                           std::make_unique<NativeAccess>(part, storage));
    default:
      return std::make_unique<Independent>(teams, part, make_posix_access(part.path()));
  }
}

}  // namespace ferry::bench
