#include "hdf5/driver_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "hdf5/engine.hpp"

namespace ferry::hdf5 {
namespace {

// Small pieces with gaps of at most this much between them are one read of a mounted file, and one
// write.
constexpr std::uint64_t gap_bytes_max = 4096;
constexpr std::uint64_t small_bytes_max = 64 << 10;
constexpr std::uint64_t together_bytes_max = 1 << 20;
// From this size on a piece is read by several threads, or in several requests past the blocks.
constexpr std::uint64_t large_bytes_min = 4 << 20;
// Memory for the runs of pieces that are read together.
constexpr std::uint64_t batch_bytes_max = 8 << 20;

int descriptor_of(const bulk::File& file) {
  try {
    return file.descriptor();
  } catch (const Error& error) {
    if (error.code().value() != ENOTSUP) throw;
    return -1;
  }
}

void fill_with_zeros(const ReadPiece& piece, std::uint64_t bytes_read) {
  if (bytes_read < piece.bytes) std::memset(piece.data + bytes_read, 0, piece.bytes - bytes_read);
}

bulk::Future begin_reads(const bulk::Engine& engine, const bulk::File& file,
                         std::span<const ReadPiece> pieces) {
  std::vector<bulk::Part> parts;
  parts.reserve(pieces.size());
  for (const ReadPiece& piece : pieces)
    parts.push_back({&file, piece.data, piece.bytes, piece.offset});
  return engine.read(parts);
}

void end_reads(const bulk::Future& future, std::span<const ReadPiece> pieces) {
  future.get();
  for (std::size_t i = 0; i < pieces.size(); ++i)
    fill_with_zeros(pieces[i], static_cast<std::uint64_t>(future.results()[i]));
}

template <class Piece>
std::uint64_t bytes_of(std::span<const Piece> pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces)
    bytes += piece.bytes;
  return bytes;
}

// How many of the first pieces, in order of their offsets, are small and lie close together.
template <class Piece>
std::size_t count_close(std::span<const Piece> pieces, std::uint64_t gap_max) {
  const auto joins = [&](const Piece& one, const Piece& next) {
    return next.bytes <= small_bytes_max && next.offset >= one.end() &&
           next.offset - one.end() <= gap_max &&
           next.end() - pieces.front().offset <= together_bytes_max;
  };
  std::size_t count = 1;
  if (pieces.front().bytes > small_bytes_max) return count;
  while (count < pieces.size() && joins(pieces[count - 1], pieces[count]))
    ++count;
  return count;
}

// Single numbers without a call.
void copy_piece(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == sizeof(double)) {
    std::memcpy(to, from, sizeof(double));
  } else if (bytes == sizeof(float)) {
    std::memcpy(to, from, sizeof(float));
  } else {
    std::memcpy(to, from, bytes);
  }
}

// Pieces in order of their offsets, of which those that lie close together are read as one.
class Batch {
 public:
  void add(std::span<const ReadPiece> close) {
    if (close.size() == 1) {
      whole_.push_back(close.front());
      return;
    }
    const std::uint64_t offset = close.front().offset;
    const std::uint64_t bytes = close.back().end() - offset;
    runs_.push_back({close, std::make_unique_for_overwrite<std::byte[]>(bytes)});
    whole_.push_back({offset, bytes, runs_.back().memory.get()});
    memory_bytes_ += bytes;
  }
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  // What is to be read.
  std::span<const ReadPiece> whole() const { return whole_; }
  // To be called when that has been read.
  void hand_out() const {
    for (const Run& run : runs_) {
      const std::uint64_t offset = run.pieces.front().offset;
      for (const ReadPiece& piece : run.pieces)
        copy_piece(piece.data, run.memory.get() + (piece.offset - offset), piece.bytes);
    }
  }

 private:
  struct Run {
    std::span<const ReadPiece> pieces;
    std::unique_ptr<std::byte[]> memory;
  };
  std::vector<ReadPiece> whole_;
  std::vector<Run> runs_;
  std::uint64_t memory_bytes_ = 0;
};

// As much of the file as the blocks that it lies in.
std::uint64_t bytes_in_blocks(const ReadPiece& piece) {
  constexpr std::uint64_t block = BlockCache::block_bytes;
  return (piece.end() + block - 1) / block * block - piece.offset / block * block;
}

bool overlap(const std::vector<WritePiece>& sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].offset < sorted[i - 1].end()) return true;
  }
  return false;
}

}  // namespace

DriverFile::DriverFile(const std::string& path, int flags)
    : engine_(engine_of_this_process()),
      file_(engine_, path, flags),
      descriptor_(descriptor_of(file_)),
      status_(file_.status()),
      size_bytes_(status_.size_bytes) {
  if (!is_mounted()) remote_ = std::make_unique<Remote>(file_);
}

DriverFile::~DriverFile() {
  if (!made_here_) static_cast<void>(remote_.release());  // its transfers are the parent's
}

void DriverFile::come_to_this_process() {
  if (made_here_) return;
  bulk::Engine engine = engine_of_this_process();
  bulk::File file(engine, file_);
  engine_ = std::move(engine);
  file_ = std::move(file);
  made_here_ = MadeHere();
  descriptor_ = descriptor_of(file_);
  if (remote_ == nullptr) return;
  static_cast<void>(remote_.release());
  remote_ = std::make_unique<Remote>(file_);
}

int DriverFile::descriptor() {
  come_to_this_process();
  return descriptor_;
}

void DriverFile::read(const ReadPiece& piece) {
  come_to_this_process();
  read_pieces({&piece, 1});
}

void DriverFile::read_vector(std::span<ReadPiece> pieces) {
  come_to_this_process();
  if (!std::ranges::is_sorted(pieces, {}, &ReadPiece::offset))
    std::ranges::sort(pieces, {}, &ReadPiece::offset);
  // Blocks are read whole, also where gaps lie in them.
  const std::uint64_t gap_max = is_mounted() ? gap_bytes_max : BlockCache::block_bytes;
  std::span<const ReadPiece> rest = pieces;
  while (!rest.empty()) {
    Batch batch;
    while (!rest.empty() && batch.memory_bytes() < batch_bytes_max) {
      const std::size_t count = count_close(rest, gap_max);
      batch.add(rest.first(count));
      rest = rest.subspan(count);
    }
    read_pieces(batch.whole());
    batch.hand_out();
  }
}

void DriverFile::read_pieces(std::span<const ReadPiece> pieces) {
  if (is_mounted()) {
    read_mounted(pieces);
  } else {
    read_remote(pieces);
  }
}

void DriverFile::read_mounted(std::span<const ReadPiece> pieces) {
  if (pieces.size() > 1 && bytes_of(pieces) >= large_bytes_min) {
    end_reads(begin_reads(engine_, file_, pieces), pieces);
    return;
  }
  for (const ReadPiece& piece : pieces)
    read_one(piece);
}

// By the kernel alone up to a size from which several threads or requests pay.
void DriverFile::read_one(const ReadPiece& piece) const {
  if (piece.bytes >= large_bytes_min) {
    fill_with_zeros(piece, file_.read_at(piece.data, piece.bytes, piece.offset));
    return;
  }
  std::uint64_t done = 0;
  while (done < piece.bytes) {
    const ssize_t got = pread(descriptor_, piece.data + done, piece.bytes - done,
                              static_cast<off_t>(piece.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(errno, file_.path());
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  fill_with_zeros(piece, done);
}

void DriverFile::read_remote(std::span<const ReadPiece> pieces) {
  std::vector<ReadPiece> large;
  std::vector<ReadPiece> others;
  for (const ReadPiece& piece : pieces)
    (piece.bytes >= large_bytes_min ? large : others).push_back(piece);
  for (const ReadPiece& piece : large) {
    remote_->writes.settle(piece.offset, piece.bytes);
    remote_->writes.check(piece.offset, piece.bytes);
  }
  bulk::Future reads;
  if (!large.empty()) reads = begin_reads(engine_, file_, large);
  try {
    std::span<const ReadPiece> rest = others;
    while (!rest.empty()) {
      std::size_t count = 0;
      std::uint64_t bytes = 0;
      do {
        bytes += bytes_in_blocks(rest[count]);
        ++count;
      } while (count < rest.size() &&
               bytes + bytes_in_blocks(rest[count]) <= remote_->blocks.together_bytes_max());
      read_blocks(rest.first(count));
      rest = rest.subspan(count);
    }
  } catch (...) {
    if (reads.valid()) reads.wait();  // not cancelled, as in BlockCache
    throw;
  }
  if (reads.valid()) end_reads(reads, large);
}

void DriverFile::read_blocks(std::span<const ReadPiece> pieces) {
  constexpr std::uint64_t block = BlockCache::block_bytes;
  for (const ReadPiece& piece : pieces) {
    remote_->writes.settle(piece.offset / block * block, bytes_in_blocks(piece));
    remote_->writes.check(piece.offset, piece.bytes);
    remote_->blocks.request(piece.offset, piece.bytes);
  }
  const std::uint64_t first = pieces.front().offset;
  const std::uint64_t end = pieces.back().end();
  // What is read ahead must not miss writes in flight.
  if (!remote_->writes.has(end, remote_->blocks.ahead_bytes_max() + block))
    remote_->blocks.request_ahead(first, end - first, size_bytes_);
  for (const ReadPiece& piece : pieces)
    remote_->blocks.read(piece);
}

void DriverFile::write_vector(const std::vector<WritePiece>& pieces) {
  std::vector<WritePiece> copy;
  if (!std::ranges::is_sorted(pieces, {}, &WritePiece::offset))
    std::ranges::sort(copy = pieces, {}, &WritePiece::offset);
  const std::vector<WritePiece>& sorted = copy.empty() ? pieces : copy;
  if (overlap(sorted)) {
    for (const WritePiece& piece : pieces)
      write(piece);
    return;
  }
  std::span<const WritePiece> rest = sorted;
  while (!rest.empty()) {
    const std::size_t count = count_close(rest, gap_bytes_max);
    if (count == 1) {
      write(rest.front());
    } else {
      write_together(rest.first(count));
    }
    rest = rest.subspan(count);
  }
}

void DriverFile::write(const WritePiece& piece) {
  come_to_this_process();
  if (is_mounted()) {
    file_.write_at(piece.data, piece.bytes, piece.offset);
  } else {
    has_unsynced_ = true;
    remote_->writes.write(piece);
    remote_->blocks.written(piece);
  }
  size_bytes_ = std::max(size_bytes_, piece.end());
}

// With what lies between them, as the sieve buffer of HDF5 does, which vectors pass by (Thakur,
// Gropp, Lusk, 1999, section 3).
void DriverFile::write_together(std::span<const WritePiece> pieces) {
  const std::uint64_t offset = pieces.front().offset;
  const std::uint64_t bytes = pieces.back().end() - offset;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (bytes_of(pieces) < bytes) read({offset, bytes, memory.get()});
  for (const WritePiece& piece : pieces)
    copy_piece(memory.get() + (piece.offset - offset), piece.data, piece.bytes);
  write({offset, bytes, memory.get()});
}

void DriverFile::settle() {
  if (remote_ != nullptr) remote_->writes.settle_all();
}

void DriverFile::flush() {
  come_to_this_process();
  settle();
  // A client may keep writes to itself until then.
  if (has_unsynced_) file_.sync();
  has_unsynced_ = false;
}

void DriverFile::truncate(std::uint64_t bytes) {
  come_to_this_process();
  settle();
  has_unsynced_ = !is_mounted();
  file_.truncate(bytes);
  size_bytes_ = bytes;
  if (remote_ != nullptr) remote_->blocks.truncated(bytes);
}

void DriverFile::close() {
  if (!made_here_) return;  // a child that has not used it
  flush();
  remote_.reset();
  file_.close();
}

}  // namespace ferry::hdf5
