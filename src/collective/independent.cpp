#include "collective/independent.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <ferry/byte_order.hpp>

namespace ferry::collective {
namespace {

// Collects pieces that continue each other in the file into one storage request.
class Requests {
 public:
  Requests(StorageFile& file, Batch& batch, storage::Kind kind)
      : file_(file), batch_(batch), kind_(kind) {}

  void add(std::int64_t offset, std::byte* data, std::int64_t bytes) {
    if (offset != offset_ + bytes_ || bytes_ + bytes > StorageFile::bytes_max) {
      send();
      offset_ = offset;
    }
    const auto length = static_cast<std::size_t>(bytes);
    if (!vectors_.empty() && end_of(vectors_.back()) == data) {
      vectors_.back().iov_len += length;
    } else {
      vectors_.push_back({data, length});
    }
    bytes_ += bytes;
    if (vectors_.size() == StorageFile::vectors_max) send();
  }
  void send() {
    if (bytes_ > 0) file_.start(batch_, kind_, offset_, vectors_);
    offset_ += bytes_;
    bytes_ = 0;
    vectors_.clear();
  }

 private:
  static std::byte* end_of(const iovec& vector) {
    return static_cast<std::byte*>(vector.iov_base) + vector.iov_len;
  }

  StorageFile& file_;
  Batch& batch_;
  storage::Kind kind_;
  std::vector<iovec> vectors_;
  std::int64_t offset_ = 0;
  std::int64_t bytes_ = 0;
};

void start_alone(StorageFile& file, Batch& batch, const Request& request, storage::Kind kind) {
  Requests requests(file, batch, kind);
  Cursor in_file(request.view.map, request.view.displacement, request.stream);
  Extent piece;
  request.memory.for_each(0, request.bytes, [&](std::byte* data, std::int64_t bytes) {
    while (bytes > 0) {
      if (piece.bytes == 0) piece = in_file.next(StorageFile::bytes_max);
      const std::int64_t step = std::min(bytes, piece.bytes);
      requests.add(piece.offset, data, step);
      piece.offset += step;
      piece.bytes -= step;
      data += step;
      bytes -= step;
    }
  });
  requests.send();
}

// Small enough to stay in a processor's cache from one step to the next, large enough for a
// storage.
constexpr std::int64_t buffer_bytes = 1 << 20;

// One piece is converted while the next is read or the last is written.
class Converted {
 public:
  Converted(StorageFile& file, Phases& phases, const Request& request, storage::Kind kind)
      : file_(file), phases_(phases), request_(request), kind_(kind) {}

  int transfer() {
    const std::int64_t pieces = (request_.bytes + buffer_bytes - 1) / buffer_bytes;
    const bool reads = kind_ == storage::Kind::read;
    // A write's buffer is free again when the one before the last is done; a read's is full then.
    for (std::int64_t piece = 0; piece < pieces + (reads ? 1 : 2); ++piece) {
      if (reads && piece < pieces) start(piece);
      const std::int64_t last = piece - (reads ? 1 : 2);
      if (last >= 0) finish(last);
      if (!reads && piece < pieces) start(piece);
    }
    return error_;
  }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> data{new std::byte[buffer_bytes]};
    Batch batch;
  };

  std::int64_t bytes_of(std::int64_t piece) const {
    return std::min(buffer_bytes, request_.bytes - piece * buffer_bytes);
  }
  Buffer& buffer_of(std::int64_t piece) { return buffers_[static_cast<std::size_t>(piece % 2)]; }

  void start(std::int64_t piece) {
    if (error_ != 0) return;
    Buffer& buffer = buffer_of(piece);
    const std::int64_t at = piece * buffer_bytes;
    if (kind_ == storage::Kind::write) {
      const Stopwatch stopwatch(phases_.pack_ns);
      request_.memory.pack(at, bytes_of(piece), buffer.data.get());
    }
    const Stopwatch stopwatch(phases_.file_io_ns);
    const Request part{request_.view, Memory(place_of(piece), dense_), request_.stream + at,
                       bytes_of(piece)};
    start_alone(file_, buffer.batch, part, kind_);
    file_.flush();
  }
  void finish(std::int64_t piece) {
    Buffer& buffer = buffer_of(piece);
    {
      const Stopwatch stopwatch(phases_.file_io_ns);
      const int error = file_.finish(buffer.batch);
      if (error_ == 0) error_ = error;
    }
    if (error_ != 0 || kind_ == storage::Kind::write) return;
    const Stopwatch stopwatch(phases_.pack_ns);
    if (reads_in_place(piece)) {
      swap_bytes(place_of(piece), static_cast<std::size_t>(bytes_of(piece)),
                 static_cast<std::size_t>(request_.memory.swapped_bytes()));
    } else {
      request_.memory.unpack(piece * buffer_bytes, bytes_of(piece), buffer.data.get());
    }
  }
  // Whole elements that lie together in the user's memory are read and reversed there.
  bool reads_in_place(std::int64_t piece) const {
    return kind_ == storage::Kind::read && bytes_of(piece) % request_.memory.swapped_bytes() == 0 &&
           request_.memory.lies_together(piece * buffer_bytes, bytes_of(piece));
  }
  std::byte* place_of(std::int64_t piece) {
    return reads_in_place(piece) ? request_.memory.at(piece * buffer_bytes)
                                 : buffer_of(piece).data.get();
  }

  StorageFile& file_;
  Phases& phases_;
  const Request& request_;
  storage::Kind kind_;
  const TypeMap dense_;
  std::array<Buffer, 2> buffers_;
  int error_ = 0;
};

}  // namespace

int transfer_alone(StorageFile& file, Phases& phases, const Request& request, storage::Kind kind) {
  if (request.bytes == 0) return 0;
  if (request.memory.converts()) return Converted(file, phases, request, kind).transfer();
  const Stopwatch stopwatch(phases.file_io_ns);
  Batch batch;
  start_alone(file, batch, request, kind);
  return file.finish(batch);
}

}  // namespace ferry::collective
