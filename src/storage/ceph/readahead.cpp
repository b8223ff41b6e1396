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
  *this = {.name = name, .used = used, .next = next};
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
  Reach reach{.offset = offset, .bytes = bytes};
  if (bytes > small_max) return reach;
  const std::lock_guard lock(mutex_);
  Stream* stream = stream_at(offset);
  if (stream == nullptr) {
    stream = &*std::ranges::min_element(streams_, {}, &Stream::used);
    *stream = {.name = ++clock_, .next = offset};
  }
  stream->used = ++clock_;
  stream->next = std::max(stream->next, offset + bytes);
  reach.stream = stream->name;
  reach.in_window = offset + bytes <= stream->window_end;
  const std::int64_t credit = stream->credit;
  stream->add(reach.in_window ? 2 * bytes : bytes);
  if (reach.in_window || stream->rests || credit < 2 * bytes) return reach;
  stream->window_begin = stream->window_end = 0;
  stream->rests = !stream->gains();
  if (stream->rests) return reach;
  constexpr auto farthest = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = offset + std::min(credit, farthest - offset);
  // A window ends where objects do, so that it needs no server which its read does not.
  const std::int64_t aligned = end - end % window_max;
  if (aligned >= offset + bytes) end = aligned;
  if (end == offset + bytes) return reach;
  stream->window_begin = offset;
  stream->window_end = end;
  reach.bytes = end - offset;
  reach.is_window = true;
  stream->credit = credit - reach.bytes;
  stream->add(2 * bytes);
  return reach;
}

void CephReadahead::end(const Reach& read, std::int64_t got, Time took) {
  if (read.stream == 0) return;
  const std::lock_guard lock(mutex_);
  Stream* stream = stream_of(read);
  if (stream == nullptr) return;
  if (got < read.bytes) {
    stream->next = read.offset + got;
    stream->window_end = std::min(stream->window_end, stream->next);
  } else if (read.is_window) {
    return;
  } else if (read.in_window) {
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
