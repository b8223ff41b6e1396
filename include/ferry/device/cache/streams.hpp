// Detects streams among a group's reads, and decides how far to read ahead.
//
// A read that begins where the last one ended continues a sequential stream immediately; one that
// leaves a gap begins a strided stream, which counts once the same distance repeats. Others begin
// new streams, so random reads get no readahead. Only reads of absent or prefetched pages are
// considered.
//
// The window doubles while the stream continues, up to a limit, and is halved when a prefetched
// page is evicted before its use.
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>

namespace ferry::device::cache {

// Pages to request: `length` of them at `first` and at every further `stride`, before `end`.
struct Ahead {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::uint64_t stride = 0;
  std::uint32_t length = 0;
};

class Streams {
 public:
  // `window_max`: pages that may be ahead of one stream.
  FERRY_DEVICE Streams(Reader& reader, std::uint32_t window_max)
      : reader_(reader), window_max_(window_max) {}

  // A read of `length` pages at `page`. Null: it is the first of its stream, or proves none.
  FERRY_DEVICE Stream* note(std::uint32_t inode, std::uint64_t page, std::uint32_t length) {
    Stream* stream = find(inode, page);
    if (stream == nullptr) {
      begin(inode, page, length);
      return nullptr;
    }
    const bool sequential = page == stream->start + stream->length;
    const bool expected = stream->stride != 0 && page == stream->start + stream->stride;
    if (!sequential && !expected) {
      stream->stride = page - stream->start;
      stream->fits = 0;
    } else {
      // A sequential stream has no gaps, whatever the size of its reads.
      if (sequential) stream->stride = length;
      ++stream->fits;
    }
    stream->start = page;
    stream->length = length;
    return stream->fits > 0 ? stream : nullptr;
  }

  // What to request now. `missed`: the read's first page was absent.
  FERRY_DEVICE Ahead plan(Stream& stream, bool missed) const {
    const bool sequential = stream.stride == stream.length;
    const std::uint64_t behind = stream.start + stream.stride;
    if (missed && stream.ahead > stream.start && stream.window > 0) {
      stream.window /= 2;  // requested, but evicted
      stream.ahead = behind;
    }
    if (stream.ahead < behind) stream.ahead = behind;
    grow(stream);
    const std::uint64_t reads = stream.window / stream.length;
    const std::uint64_t end =
        behind + (sequential ? stream.window : (reads > 0 ? reads : 1) * stream.stride);
    // Makes large requests, unless the reader is about to catch up.
    const std::uint64_t wanted = end > stream.ahead ? end - stream.ahead : 0;
    const bool close = stream.ahead - behind <= stream.window / 4;
    if (wanted == 0 || (sequential && !close && wanted < stream.window / 4)) return Ahead{};
    return Ahead{stream.ahead, end, sequential ? wanted : stream.stride,
                 sequential ? static_cast<std::uint32_t>(wanted) : stream.length};
  }

 private:
  static constexpr std::uint32_t first_window = 4;
  static constexpr std::uint64_t stride_max = 1 << 16;  // pages

  FERRY_DEVICE void grow(Stream& stream) const {
    const std::uint32_t least = 2 * stream.length > first_window ? 2 * stream.length : first_window;
    stream.window = stream.window < least ? least : 2 * stream.window;
    if (stream.window > window_max_) stream.window = window_max_;
  }

  // The stream that the read continues; else one before it that may become strided.
  FERRY_DEVICE Stream* find(std::uint32_t inode, std::uint64_t page) {
    Stream* nearest = nullptr;
    FERRY_NO_UNROLL
    for (Stream& stream : reader_.streams) {
      if (stream.length == 0 || stream.inode != inode) continue;
      if (page == stream.start + stream.length) return &stream;
      if (stream.stride != 0 && page == stream.start + stream.stride) return &stream;
      const bool undecided = stream.fits == 0 && page > stream.start + stream.length &&
                             page - stream.start <= stride_max;
      if (undecided && (nearest == nullptr || stream.start > nearest->start)) nearest = &stream;
    }
    return nearest;
  }

  FERRY_DEVICE void begin(std::uint32_t inode, std::uint64_t page, std::uint32_t length) {
    Stream& stream = reader_.streams[reader_.next_stream++ % streams_max];
    stream = Stream{};
    stream.inode = inode;
    stream.start = page;
    stream.length = length;
  }

  Reader& reader_;
  std::uint32_t window_max_;
};

}  // namespace ferry::device::cache
