#include "tools/verification.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/file_access.hpp"
#include "tools/file_cache.hpp"
#include "tools/pattern.hpp"

namespace ferry::bench {
namespace {

constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

void compare(const Cell& cell, const void* found, const void* expected, std::uint64_t bytes,
             std::uint64_t offset) {
  const std::uint64_t at = first_difference(found, expected, bytes);
  if (at == bytes) return;
  throw ContentsError("the contents of " + cell.path + " are wrong at byte " +
                      std::to_string(offset + at) + ", by way of " + name_of(cell.interface));
}

// What the file must contain at [offset, offset + bytes).
void expect(const Cell& cell, const PlainFile& file, void* data, std::uint64_t bytes,
            std::uint64_t offset) {
  if (cell.expect_pattern_seed) {
    fill_pattern(data, bytes, offset, *cell.expect_pattern_seed);
  } else {
    file.read(data, bytes, offset);
  }
}

void expect_written(const Cell& cell, std::uint64_t pattern_seed, unsigned char* data,
                    std::uint64_t bytes, std::uint64_t offset) {
  if (cell.program == Program::stream) {
    fill_pattern(data, bytes, offset, pattern_seed);
    return;
  }
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t piece = (offset + at) / cell.transfer_bytes;
    const std::uint64_t end = std::min(bytes, (piece + 1) * cell.transfer_bytes - offset);
    fill_words(data + at, end - at, piece_value(piece, pattern_seed));
    at = end;
  }
}

void verify_part(const Cell& cell, FileAccess& file, unsigned thread, unsigned char* buffer,
                 const std::atomic<bool>& stopped) {
  const PlainFile plain(cell.path);
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<unsigned char> expected(bytes);
  file.open(open_flags(cell));
  for (std::uint64_t i = 0; i < cell.calls_per_thread(); ++i) {
    if (stopped.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
    const std::uint64_t offset = thread * cell.part_bytes() + i * bytes;
    expect(cell, plain, expected.data(), bytes, offset);
    std::memset(buffer, static_cast<unsigned char>(~expected[0]), bytes);
    const std::int64_t got = file.read(buffer, bytes, offset);
    if (got < 0) throw Error(static_cast<int>(-got), "reading " + cell.path);
    compare(cell, buffer, expected.data(), static_cast<std::uint64_t>(got), offset);
    if (static_cast<std::uint64_t>(got) != bytes) {
      throw Error(EIO, "reading " + cell.path + " gave " + std::to_string(got) + " of " +
                           std::to_string(bytes) + " bytes");
    }
  }
  file.close();
}

}  // namespace

void check_readable(const Cell& cell) {
  const PlainFile file(cell.path);
  if (!file.is_regular()) throw Error(EINVAL, cell.path + " is no regular file");
  const std::uint64_t size_bytes = file.size_bytes();
  if (size_bytes < cell.total_bytes) {
    throw Error(EINVAL, cell.path + " has " + std::to_string(size_bytes) +
                            " bytes, and the measurement needs " +
                            std::to_string(cell.total_bytes));
  }
}

void verify_reads(Runtime& runtime, const Cell& cell, const std::atomic<bool>& stopped) {
  std::vector<Buffer> buffers;
  for (unsigned i = 0; i < cell.threads; ++i)
    buffers.push_back(runtime.allocate(cell.call_bytes()));
  runtime.run([&](DeviceThread& self) {
    if (self.index >= cell.threads) return;
    const std::unique_ptr<FileAccess> file = make_access(cell, self);
    verify_part(cell, *file, self.index, buffers[self.index].as<unsigned char>(), stopped);
  });
}

std::uint32_t sum_file(const Cell& cell) {
  const PlainFile file(cell.path);
  std::vector<unsigned char> buffer(step_bytes);
  std::uint32_t sum = 0;
  for (std::uint64_t at = 0; at < cell.total_bytes; at += step_bytes) {
    const std::uint64_t bytes = std::min(step_bytes, cell.total_bytes - at);
    file.read(buffer.data(), bytes, at);
    sum += sum_words(buffer.data(), bytes);
  }
  return sum;
}

void verify_buffer(const ProgramInput& input) {
  const Cell& cell = input.cell;
  const PlainFile plain(cell.path);
  const std::uint64_t bytes = cell.call_bytes();
  const std::uint64_t count = cell.calls_per_thread();
  std::vector<unsigned char> expected(bytes);
  for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(cell.queue_depth, count); ++back) {
    const std::uint64_t call = count - back;
    const std::uint64_t offset = input.part_offset + input.order[call] * bytes;
    expect(cell, plain, expected.data(), bytes, offset);
    compare(cell, input.buffer + call % cell.queue_depth * bytes, expected.data(), bytes, offset);
  }
}

void verify_written(const Cell& cell, std::uint64_t pattern_seed) {
  const PlainFile file(cell.path);
  if (file.size_bytes() != cell.total_bytes) {
    throw ContentsError(cell.path + " has " + std::to_string(file.size_bytes()) + " bytes after " +
                        std::to_string(cell.total_bytes) + " were written, by way of " +
                        name_of(cell.interface));
  }
  std::vector<unsigned char> found(step_bytes);
  std::vector<unsigned char> expected(step_bytes);
  for (std::uint64_t at = 0; at < cell.total_bytes; at += step_bytes) {
    const std::uint64_t bytes = std::min(step_bytes, cell.total_bytes - at);
    file.read(found.data(), bytes, at);
    expect_written(cell, pattern_seed, expected.data(), bytes, at);
    compare(cell, found.data(), expected.data(), bytes, at);
  }
}

}  // namespace ferry::bench
