// The device program of this example, an out-of-core gather: it copies rows of a table that is
// larger than the page cache to an output file, in the order of a list. The same source runs on the
// threads of the `cpu` device (gather.cpp) and on the warps of a GPU (gather.cu).
//
// Each lane of a group reads one row; lanes with rows in the same page share its lookup. The group
// writes its lanes' rows in one call.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device.hpp>

namespace ferry::examples {

inline constexpr std::uint64_t row_bytes = 4096;

// In device memory, one for all groups.
struct GatherJob {
  const char* table_path = nullptr;
  const char* output_path = nullptr;
  std::int32_t create_flags =
      0;  // O_RDWR | O_CREAT | O_EXCL; a kernel compiled at run time has no names
  const std::uint64_t* rows = nullptr;
  std::uint64_t row_count = 0;
  char* buffers = nullptr;  // row_bytes for each lane of each group
  // What the groups share.
  std::int32_t table = -1;
  std::int32_t output = -1;
  std::int32_t error = 0;  // the first negative errno; -ERANGE for rows outside the table
};

FERRY_DEVICE inline void note_error(GatherJob& job, std::int64_t error) {
  std::int32_t none = 0;
  device::DeviceRef<std::int32_t>(job.error).compare_exchange_strong(
      none, static_cast<std::int32_t>(error), device::relaxed);
}

// One group calls this before gather_rows(). The output must not exist.
template <class Group>
FERRY_DEVICE void open_files(device::FileCalls<Group>& files, Group group, GatherJob& job) {
  const int table = files.open(job.table_path, 0);  // O_RDONLY
  const int output = table < 0 ? -1 : files.open(job.output_path, job.create_flags, 0644);
  if (group.lane() != 0) return;
  job.table = table;
  job.output = output;
}

// One group calls this at the end. Closing writes back; an incomplete output is removed.
template <class Group>
FERRY_DEVICE void close_files(device::FileCalls<Group>& files, Group group, GatherJob& job) {
  if (job.table > 0) files.close(job.table);
  if (job.output <= 0) return;
  const int closed = files.close(job.output);
  if (closed < 0 && group.lane() == 0) note_error(job, closed);
  group.sync();
  if (job.error != 0) files.unlink(job.output_path);
}

// Every group calls this; `index` is its number among the `groups`.
template <class Group>
FERRY_DEVICE void gather_rows(device::FileCalls<Group>& files, Group group, std::uint32_t index,
                              std::uint32_t groups, GatherJob& job) {
  if (job.output <= 0) return;
  files.use(device::Placement::compute);
  const std::uint64_t lanes = group.size();
  char* buffer = job.buffers + index * lanes * row_bytes;
  for (std::uint64_t first = index * lanes; first < job.row_count; first += groups * lanes) {
    const std::uint64_t left = job.row_count - first;
    const std::uint64_t count = left < lanes ? left : lanes;
    // All lanes take part in the calls: surplus lanes read the last row again.
    const std::uint64_t mine = group.lane() < count ? group.lane() : count - 1;
    const std::int64_t got =
        files.pread_each(job.table, buffer + group.lane() * row_bytes, row_bytes,
                         static_cast<std::int64_t>(job.rows[first + mine] * row_bytes));
    if (got != static_cast<std::int64_t>(row_bytes)) note_error(job, got < 0 ? got : -ERANGE);
    group.sync();  // every lane has its row before they are written
    const std::int64_t written = files.pwrite(job.output, buffer, count * row_bytes,
                                              static_cast<std::int64_t>(first * row_bytes));
    if (written < 0 && group.lane() == 0) note_error(job, written);
  }
}

}  // namespace ferry::examples
