#include "storage/ceph/readahead.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ferry::storage {

// Judges the latest windows, once enough was read in them.
bool CephReadahead::Stream::gains() {
  if (reads_within < judged_reads) return true;
  reads_within = 0;
  return before / gain_min > std::exchange(within, Time::max());
}

void CephReadahead::Stream::begin_anew() {
  *this = {.name = name, .used = used, .start = next, .next = next};
}

CephReadahead::Stream* CephReadahead::stream_at(std::int64_t offset) {
  const auto found =
      std::ranges::find_if(streams_, [&](const Stream& stream) { return stream.has(offset); });
  return found == streams_.end() ? nullptr : &*found;
}

CephReadahead::Stream* CephReadahead::stream_of(const Reach& read) {
  const auto found = std::ranges::find(streams_, read.stream, &Stream::name);
  return found == streams_.end() ? nullptr : &*found;
}

CephReadahead::Reach CephReadahead::begin(std::int64_t offset, std::int64_t bytes) {
  if (bytes > small_max) return {bytes};
  const std::lock_guard lock(mutex_);
  Stream* stream = stream_at(offset);
  if (stream == nullptr) {
    stream = &*std::ranges::min_element(streams_, {}, &Stream::used);
    *stream = {.name = ++clock_, .start = offset, .next = offset};
  }
  stream->used = ++clock_;
  stream->next = std::max(stream->next, offset + bytes);
  if (offset + bytes <= stream->window_end) return {bytes, true, stream->name};
  const std::int64_t run = offset - stream->start;
  if (stream->rests || run < 2 * bytes) return {bytes, false, stream->name};
  stream->window_begin = stream->window_end = 0;
  if (!stream->gains()) {
    stream->rests = true;
    return {bytes, false, stream->name};
  }
  constexpr auto farthest = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = offset + std::min({run, window_max, farthest - offset});
  // A window ends where objects do, so that it needs no server which its reads do not.
  const std::int64_t aligned = end - end % window_max;
  if (aligned >= offset + bytes) end = aligned;
  stream->window_begin = offset;
  stream->window_end = end;
  return {end - offset, true, stream->name};
}

void CephReadahead::end(const Reach& read, Time took) {
  if (read.stream == 0) return;
  const std::lock_guard lock(mutex_);
  Stream* stream = stream_of(read);
  if (stream == nullptr) return;
  if (read.in_window) {
    stream->within = std::min(stream->within, took);
    ++stream->reads_within;
  } else if (!stream->rests) {
    stream->before = std::min(stream->before, took);
  } else {
    stream->slow = took / gain_min > stream->before ? stream->slow + 1 : 0;
    if (stream->slow == slow_reads) stream->begin_anew();
  }
}

void CephReadahead::drop(const Reach& read) {
  if (read.stream == 0) return;
  const std::lock_guard lock(mutex_);
  if (Stream* stream = stream_of(read); stream != nullptr) stream->begin_anew();
}

}  // namespace ferry::storage
