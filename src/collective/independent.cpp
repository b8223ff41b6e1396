#include "collective/independent.hpp"

#include <algorithm>
#include <optional>

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

}  // namespace

int transfer_alone(StorageFile& file, Phases& phases, const Request& request, storage::Kind kind) {
  if (request.bytes == 0) return 0;
  const Stopwatch stopwatch(phases.file_io_ns);
  Batch batch;
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
  return file.finish(batch);
}

}  // namespace ferry::collective
