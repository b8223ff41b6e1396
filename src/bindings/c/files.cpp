// Open files, and transfers that are waited for at once.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "bindings/c/transfers.hpp"

namespace ferry::c {
namespace {

// Ferry rounds ranges up to pages of this size.
constexpr std::uint64_t range_end_max = static_cast<std::uint64_t>(INT64_MAX) - 4096;
constexpr std::uint64_t copy_step_bytes = 8 << 20;

std::shared_ptr<bulk::File> file_of(const ferry_file* handle) {
  return FileHandles::mine().get(handle);
}

struct Range {
  std::uint64_t begin;
  std::uint64_t bytes;
};

bool overlap(const Range& one, const Range& other) {
  return one.begin < other.begin + other.bytes && other.begin < one.begin + one.bytes;
}

// Reads the next step while it writes the present one.
std::uint64_t copy(const bulk::File& from, Range range, const bulk::File& to, std::uint64_t at) {
  const std::uint64_t step = std::min(range.bytes, copy_step_bytes);
  const std::unique_ptr<std::byte[]> memory(new std::byte[2 * step]);
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  const auto read_next = [&](std::byte* where) {
    return from.read_at_async(where, std::min(step, range.bytes - read), range.begin + read);
  };
  std::byte* now = memory.get();
  std::byte* next = memory.get() + step;
  bulk::Future reading = read_next(now);  // after the memory, so that it ends before it
  while (written < range.bytes) {
    const std::uint64_t got = reading.get();
    if (got == 0) break;
    read += got;
    if (read < range.bytes) reading = read_next(next);
    written += to.write_at(now, got, at + written);
    std::swap(now, next);
  }
  return written;
}

}  // namespace

void check_range(const void* data, std::uint64_t bytes, std::uint64_t offset_bytes) {
  if (bytes > 0) given(data, "data");
  if (offset_bytes > range_end_max || bytes > range_end_max - offset_bytes) {
    refuse("a range beyond what a file can have: " + std::to_string(bytes) + " bytes at " +
           std::to_string(offset_bytes));
  }
}

}  // namespace ferry::c

using namespace ferry::c;

int ferry_open(ferry_file** file, const char* path, int flags, uint32_t mode) {
  return guarded([&] {
    *given(file, "file") = nullptr;
    *file = FileHandles::mine().add(
        std::make_shared<ferry::bulk::File>(given(path, "path"), flags, mode));
    return 0;
  });
}

int ferry_close(ferry_file* file) {
  return guarded([&] {
    FileHandles::mine().take(file)->close();
    return 0;
  });
}

int64_t ferry_pread(ferry_file* file, void* data, uint64_t bytes, uint64_t offset_bytes) {
  return guarded([&] {
    const auto open = file_of(file);
    check_range(data, bytes, offset_bytes);
    return static_cast<int64_t>(open->read_at(data, bytes, offset_bytes));
  });
}

int64_t ferry_pwrite(ferry_file* file, const void* data, uint64_t bytes, uint64_t offset_bytes) {
  return guarded([&] {
    const auto open = file_of(file);
    check_range(data, bytes, offset_bytes);
    return static_cast<int64_t>(open->write_at(data, bytes, offset_bytes));
  });
}

int64_t ferry_size(ferry_file* file) {
  return guarded([&] { return static_cast<int64_t>(file_of(file)->size()); });
}

int ferry_truncate(ferry_file* file, uint64_t size_bytes) {
  return guarded([&] {
    const auto open = file_of(file);
    if (size_bytes > range_end_max) refuse("size_bytes: more than a file can have");
    open->truncate(size_bytes);
    return 0;
  });
}

int ferry_sync(ferry_file* file) {
  return guarded([&] {
    file_of(file)->sync();
    return 0;
  });
}

int64_t ferry_copy(ferry_file* from, uint64_t from_offset_bytes, ferry_file* to,
                   uint64_t to_offset_bytes, uint64_t bytes) {
  return guarded([&]() -> int64_t {
    const auto source = file_of(from);
    const auto target = file_of(to);
    check_range(nullptr, 0, from_offset_bytes);
    check_range(nullptr, 0, to_offset_bytes);
    const ferry::bulk::OpenStatus found = source->status();
    const ferry::bulk::OpenStatus other = target->status();
    const bool is_same = found.device == other.device && found.inode == other.inode;
    std::uint64_t end = found.size_bytes;
    // Files that are generated while they are read, as in /proc, show no size.
    if (end == 0 && !is_same) end = range_end_max - std::min(range_end_max, to_offset_bytes);
    const std::uint64_t there = end - std::min(end, from_offset_bytes);
    const Range range{from_offset_bytes, std::min(bytes, there)};
    if (range.bytes == 0) return 0;
    check_range(&range, range.bytes, to_offset_bytes);
    if (is_same && overlap(range, {to_offset_bytes, range.bytes})) {
      refuse("the ranges overlap in " + source->path());
    }
    return static_cast<int64_t>(copy(*source, range, *target, to_offset_bytes));
  });
}
