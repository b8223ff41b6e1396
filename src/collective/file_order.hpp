// Transfers through views whose pieces do not ascend in the file: their copies interleave, or they
// overlap, which is for reading. Methods know only views that ascend, so that such a request gets
// one of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/direction.hpp"
#include "collective/context.hpp"

namespace ferry::collective {

class FileOrder {
 public:
  // `asked` must outlive it, and be valid. Within one copy of a view that ascends it is the same
  // request; another one moves through a buffer of as many bytes, where that may be: of memory of
  // the host. Else throws ferry::Error (ENOTSUP). What is written twice gets the later bytes of the
  // stream.
  FileOrder(Direction direction, const RankRequest& asked, bool may_have_buffer);
  FileOrder(const FileOrder&) = delete;
  FileOrder& operator=(const FileOrder&) = delete;

  bool has_buffer() const { return buffer_ != nullptr; }
  // To be carried out.
  RankRequest& request() { return *request_; }
  // Once it is: returns the bytes of what was asked for, and hands out those of a read, up to the
  // first one that lies behind the end of the file.
  std::int64_t finish();

 private:
  std::byte* place_of(const Extent& piece) const {
    return buffer_.get() + view_.map.stream_at(piece.offset);
  }

  const Direction direction_;
  const RankRequest& asked_;
  FileView view_;
  const TypeMap dense_;
  std::vector<Extent> pieces_;  // of the file, in the order of the stream
  std::unique_ptr<std::byte[]> buffer_;
  std::optional<RankRequest> request_;
};

}  // namespace ferry::collective
