#include "collective/file_order.hpp"

#include <algorithm>
#include <cerrno>

#include <ferry/error.hpp>

#include "collective/runs.hpp"

namespace ferry::collective {

FileOrder::FileOrder(Direction direction, const RankRequest& asked, bool may_have_buffer)
    : direction_(direction), asked_(asked), view_{0, TypeMap::list({}), 1} {
  const FileView& view = asked.view;
  const std::int64_t data = view.map.data_bytes();
  if (asked.bytes > 0 && view.copy && data % view.swapped_bytes == 0) {
    const std::int64_t copy = asked.stream / data;
    if (asked.stream + asked.bytes <= (copy + 1) * data) {
      view_ = {view.displacement + copy * view.map.period_bytes(), *view.copy, view.swapped_bytes};
      request_.emplace(RankRequest{view_, asked.memory, asked.stream - copy * data, asked.bytes});
      return;
    }
  }
  if (asked.bytes > 0) {
    if (!may_have_buffer)
      throw Error(ENOTSUP, "memory of a GPU and a view whose pieces do not ascend");
    Cursor cursor(view.map, view.displacement, asked.stream);
    for (std::int64_t left = asked.bytes; left > 0; left -= pieces_.back().bytes)
      pieces_.push_back(cursor.next(left));
    std::vector<Extent> ascending = pieces_;
    join(ascending, 0);
    view_.map = TypeMap::list(ascending);
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(view_.map.data_bytes()));
  }
  request_.emplace(RankRequest{view_, Memory(buffer_.get(), dense_), 0, view_.map.data_bytes()});
  if (direction_ == Direction::read) return;
  std::int64_t stream = 0;
  for (const Extent& piece : pieces_) {
    asked.memory.pack(stream, piece.bytes, place_of(piece));
    stream += piece.bytes;
  }
}

std::int64_t FileOrder::finish() {
  if (!has_buffer()) return request_->bytes;
  if (direction_ == Direction::write) return asked_.bytes;
  const std::byte* const end = buffer_.get() + request_->bytes;
  std::int64_t stream = 0;
  for (const Extent& piece : pieces_) {
    const std::byte* const from = place_of(piece);
    const std::int64_t bytes = std::clamp(end - from, std::ptrdiff_t{0}, piece.bytes);
    asked_.memory.unpack(stream, bytes, from);
    stream += bytes;
    if (bytes < piece.bytes) break;
  }
  return stream;
}

}  // namespace ferry::collective
