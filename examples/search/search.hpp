// The device program of this example counts the occurrences of a string in a file. The same source
// runs on the threads of the `cpu` device (search.cpp) and on the warps of a GPU (search.cu).
//
// Groups take pieces of the file from a counter. Each reads its piece and enough beyond it for
// strings that begin in the piece; then its lanes check the positions in turn.
#pragma once

#include <cstdint>

#include <ferry/device.hpp>

namespace ferry::examples {

// In device memory, one for all groups.
struct SearchJob {
  const char* path = nullptr;
  const char* wanted = nullptr;
  std::uint64_t wanted_bytes = 0;  // at least 1
  std::uint64_t piece_bytes = 0;
  char* buffers = nullptr;  // search_buffer_bytes() for each group
  // What the groups share.
  std::int32_t file = -1;
  std::int32_t error = 0;  // the first negative errno of a read
  std::uint64_t next_piece = 0;
  std::uint64_t places = 0;
};

FERRY_DEVICE inline std::uint64_t search_buffer_bytes(const SearchJob& job) {
  return job.piece_bytes + job.wanted_bytes - 1;
}

// One group calls this before search_pieces(); and after it.
template <class Group>
FERRY_DEVICE void open_text(device::FileCalls<Group>& files, Group group, SearchJob& job) {
  const int file = files.open(job.path, 0);  // O_RDONLY
  if (group.lane() == 0) job.file = file;
}
template <class Group>
FERRY_DEVICE void close_text(device::FileCalls<Group>& files, SearchJob& job) {
  if (job.file > 0) files.close(job.file);
}

FERRY_DEVICE inline bool begins_with(const char* text, const SearchJob& job) {
  for (std::uint64_t i = 0; i < job.wanted_bytes; ++i)
    if (text[i] != job.wanted[i]) return false;
  return true;
}

// Every group calls this; `index` is its number.
template <class Group>
FERRY_DEVICE void search_pieces(device::FileCalls<Group>& files, Group group, std::uint32_t index,
                                SearchJob& job) {
  if (job.file <= 0) return;
  char* text = job.buffers + index * search_buffer_bytes(job);
  std::uint64_t places = 0;  // that this lane found
  for (;;) {
    std::uint64_t piece = 0;
    if (group.lane() == 0)
      piece = device::DeviceRef<std::uint64_t>(job.next_piece).fetch_add(1, device::relaxed);
    piece = group.broadcast(piece);
    const std::int64_t got = files.pread(job.file, text, search_buffer_bytes(job),
                                         static_cast<std::int64_t>(piece * job.piece_bytes));
    if (got < 0 && group.lane() == 0) {
      std::int32_t none = 0;
      device::DeviceRef<std::int32_t>(job.error).compare_exchange_strong(
          none, static_cast<std::int32_t>(got), device::relaxed);
    }
    const std::int64_t starts = got - static_cast<std::int64_t>(job.wanted_bytes) + 1;
    if (starts <= 0) break;  // the end of the file
    for (auto at = static_cast<std::int64_t>(group.lane()); at < starts; at += group.size())
      if (begins_with(text + at, job)) ++places;
    group.sync();  // the next read must not overwrite data that a lane still checks
  }
  device::DeviceRef<std::uint64_t>(job.places).fetch_add(places, device::relaxed);
}

}  // namespace ferry::examples
