#include "harness/verification.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>

#include <ferry/byte_order.hpp>

#include "harness/file_access.hpp"
#include "harness/layout.hpp"
#include "harness/pattern.hpp"

namespace ferry::bench {
namespace {

constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Throws ContentsError unless both are the same; `offset` is where they belong in the file.
void compare_contents(const std::string& path, Interface interface, const void* found,
                      const void* expected, std::uint64_t bytes, std::uint64_t offset) {
  const std::uint64_t at = first_difference(found, expected, bytes);
  if (at != bytes) report_wrong_byte(path, offset + at, interface);
}

void expect_written(const Cell& cell, std::uint64_t seed, unsigned char* data, std::uint64_t bytes,
                    std::uint64_t offset) {
  if (!cell.computes()) {
    fill_pattern(data, bytes, offset, seed);
    if (is_foreign(cell.order)) swap_bytes(data, bytes, cell.element_bytes);
    return;
  }
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t piece = (offset + at) / cell.transfer_bytes;
    const std::uint64_t end = std::min(bytes, (piece + 1) * cell.transfer_bytes - offset);
    fill_words(data + at, end - at, piece_value(piece, seed));
    at = end;
  }
}

void verify_call(const Cell& cell, const Expected& contents, FileAccess& file, Place place,
                 unsigned char* buffer) {
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<unsigned char> expected(bytes);
  contents.get(expected.data(), bytes, place.offset);
  std::memset(buffer, static_cast<unsigned char>(~expected[0]), bytes);
  const std::int64_t got = file.read(buffer, bytes, place.offset);
  const std::string path = file_path(cell, place.file);
  if (got < 0) throw Error(static_cast<int>(-got), "reading " + path);
  contents.compare(buffer, expected.data(), static_cast<std::uint64_t>(got), place.offset);
  if (static_cast<std::uint64_t>(got) != bytes) {
    throw Error(EIO, "reading " + path + " gave " + std::to_string(got) + " of " +
                         std::to_string(bytes) + " bytes");
  }
}

void verify_part(const Cell& cell, const ThreadPart& part, const Accesses& files,
                 unsigned char* buffer, const std::atomic<bool>& stopped) {
  const std::uint64_t calls_per_file = cell.calls_per_thread() / files.size();
  std::uint64_t call = 0;
  for (const std::unique_ptr<FileAccess>& file : files) {
    const Expected contents(cell, place_of(cell, part, part.offset_of(call)).file);
    file->open(open_flags(cell));
    for (const std::uint64_t end = call + calls_per_file; call < end; ++call) {
      if (stopped.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
      verify_call(cell, contents, *file, place_of(cell, part, part.offset_of(call)), buffer);
    }
    file->close();
  }
}

}  // namespace

Expected::Expected(const Cell& cell, unsigned file) : cell_(cell), plain_(file_path(cell, file)) {
  if (cell.expect_pattern_seed) pattern_ = contents_of(cell, *cell.expect_pattern_seed, file);
}

void Expected::get(void* data, std::uint64_t bytes, std::uint64_t offset) const {
  if (pattern_) {
    fill_pattern(data, bytes, pattern_->begin + offset, pattern_->seed);
  } else {
    plain_.read(data, bytes, offset);
  }
}

void Expected::compare(const void* found, const void* expected, std::uint64_t bytes,
                       std::uint64_t offset) const {
  compare_contents(plain_.path(), cell_.interface, found, expected, bytes, offset);
}

void check_readable(const Cell& cell) {
  for (unsigned i = 0; i < file_count(cell); ++i) {
    const StoredFile file(file_path(cell, i));
    if (!file.keeps_bytes())
      throw Error(EINVAL, file.path() + " is neither a regular file nor a block device");
    const std::uint64_t size_bytes = file.size_bytes();
    const std::uint64_t needed_bytes = file_bytes(cell, i);
    if (size_bytes < needed_bytes) {
      throw Error(EINVAL, file.path() + " has " + std::to_string(size_bytes) +
                              " bytes, and the measurement needs " + std::to_string(needed_bytes));
    }
  }
}

void verify_reads(Runtime& runtime, const Cell& cell, const std::atomic<bool>& stopped) {
  std::vector<Buffer> buffers;
  for (unsigned i = 0; i < cell.threads; ++i)
    buffers.push_back(runtime.allocate(cell.call_bytes()));
  runtime.run([&](DeviceThread& self) {
    if (self.index >= cell.threads) return;
    const ThreadPart part = part_of(cell, self.index);
    const Accesses files = make_accesses(cell, part, self);
    verify_part(cell, part, files, buffers[self.index].as<unsigned char>(), stopped);
  });
}

std::uint64_t find_pattern_seed(const Cell& cell) {
  const StoredFile file(file_path(cell, 0));
  Block block;
  for (std::uint64_t i = 0; (i + 1) * block_bytes <= file_bytes(cell, 0); ++i) {
    file.read(block.data(), block_bytes, i * block_bytes);
    if (const auto seed = seed_of_block(block, i)) return *seed;
  }
  throw ContentsError(file.path() + " does not hold the pattern that ferry bench writes");
}

std::uint32_t sum_files(const Cell& cell) {
  std::vector<unsigned char> buffer(step_bytes);
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < file_count(cell); ++i) {
    const StoredFile file(file_path(cell, i));
    for (std::uint64_t at = 0; at < file_bytes(cell, i); at += step_bytes) {
      const std::uint64_t bytes = std::min(step_bytes, file_bytes(cell, i) - at);
      file.read(buffer.data(), bytes, at);
      sum += sum_words(buffer.data(), bytes);
    }
  }
  return sum;
}

void verify_either(const Cell& cell, const ThreadPart& part, const unsigned char* found,
                   std::uint64_t offset) {
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<unsigned char> before(bytes);
  std::vector<unsigned char> after(bytes);
  fill_pattern(before.data(), bytes, offset, file_seed(*cell.expect_pattern_seed, part.file));
  fill_pattern(after.data(), bytes, offset, file_seed(*cell.meanwhile_pattern_seed, part.file));
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (found[i] != before[i] && found[i] != after[i])
      report_wrong_byte(file_path(cell, part.file), offset + i, cell.interface);
}

void verify_buffer(const ProgramInput& input, std::uint64_t calls) {
  const Cell& cell = input.cell;
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<unsigned char> expected(bytes);
  for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(cell.queue_depth, calls); ++back) {
    const std::uint64_t call = calls - back;
    const Place place = place_of(cell, input.part, input.offset_of(call));
    const unsigned char* const found = input.buffer + call % cell.queue_depth * bytes;
    if (cell.meanwhile_pattern_seed) {
      verify_either(cell, input.part, found, place.offset);
      continue;
    }
    const Expected contents(cell, place.file);
    contents.get(expected.data(), bytes, place.offset);
    contents.compare(found, expected.data(), bytes, place.offset);
  }
}

void verify_last_reads(const ProgramInput& input, const ProgramOutput& output) {
  std::vector<unsigned char> expected(input.cell.call_bytes());
  for (const ProgramOutput::LastRead& last : output.last_reads) {
    fill_pattern(expected.data(), expected.size(), last.offset, last.pattern_seed);
    compare_contents(file_path(input.cell, input.part.file), input.cell.interface,
                     input.buffer_of(last.slot, MeasuredOperation::read), expected.data(),
                     expected.size(), last.offset);
  }
}

void verify_written(const Cell& cell, std::uint64_t pattern_seed) {
  for (unsigned i = 0; i < file_count(cell); ++i)
    verify_written(cell, pattern_seed, i, cell.offset_bytes, file_bytes(cell, i));
}

void verify_written(const Cell& cell, std::uint64_t pattern_seed, unsigned number,
                    std::uint64_t begin, std::uint64_t end) {
  const StoredFile file(file_path(cell, number));
  const std::uint64_t wanted_bytes = file_bytes(cell, number);
  if (file.size_bytes() != wanted_bytes && !is_block_device(file.path())) {
    throw ContentsError(file.path() + " has " + std::to_string(file.size_bytes()) +
                        " bytes after " + std::to_string(wanted_bytes) +
                        " were written, by way of " + name_of(cell.interface));
  }
  const PatternPlace contents = contents_of(cell, pattern_seed, number);
  std::vector<unsigned char> found(std::min(step_bytes, end - begin));
  std::vector<unsigned char> expected(found.size());
  for (std::uint64_t at = begin; at < end; at += step_bytes) {
    const std::uint64_t bytes = std::min(step_bytes, end - at);
    file.read(found.data(), bytes, at);
    expect_written(cell, contents.seed, expected.data(), bytes, contents.begin + at);
    compare_contents(file.path(), cell.interface, found.data(), expected.data(), bytes, at);
  }
}

void verify_written(const Cell& cell, std::uint64_t pattern_seed,
                    const std::vector<std::uint64_t>& calls_of_part) {
  for (unsigned i = 0; i < cell.threads; ++i)
    verify_part_written(cell, pattern_seed, i, calls_of_part[i]);
}

void verify_part_written(const Cell& cell, std::uint64_t pattern_seed, unsigned index,
                         std::uint64_t calls) {
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<unsigned char> found(bytes);
  std::vector<unsigned char> expected(bytes);
  const ThreadPart part = part_of(cell, index);
  const StoredFile file(file_path(cell, part.file));
  const std::vector<bool> written = places_of(cell, index, calls);
  for (std::uint64_t place = 0; place < written.size(); ++place) {
    if (!written[place] && !cell.mixes()) continue;
    const std::uint64_t offset = part.offset_of(place);
    const std::uint64_t seed = written[place] ? pattern_seed : made_seed_of(pattern_seed);
    file.read(found.data(), bytes, offset);
    fill_pattern(expected.data(), bytes, offset, file_seed(seed, part.file));
    compare_contents(file.path(), cell.interface, found.data(), expected.data(), bytes, offset);
  }
}

void make_striped(const Cell& cell, const std::string& path) {
  storage::Layout layout;
  layout.stripe_bytes = cell.stripe_bytes;
  layout.stripe_count = cell.stripe_count;
  const std::shared_ptr<storage::Storage> clients = side_storage();
  storage::SyncFile file(*clients);
  storage::checked(file.open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &layout),
                   "making " + path + " with its stripes");
  storage::checked(file.close(), "closing " + path);
}

void make_file(const Cell& cell, std::uint64_t pattern_seed, unsigned number,
               const std::atomic<bool>& stopped) {
  const std::string path = file_path(cell, number);
  if (cell.is_striped()) make_striped(cell, path);
  const StoredFile file(path, O_WRONLY | O_CREAT | (cell.is_striped() ? 0 : O_EXCL));
  const PatternPlace contents = contents_of(cell, pattern_seed, number);
  const std::uint64_t end = file_bytes(cell, number);
  std::vector<unsigned char> data(std::min(step_bytes, end));
  for (std::uint64_t at = 0; at < end; at += step_bytes) {
    if (stopped) throw Error(EINTR, "interrupted");
    const std::uint64_t bytes = std::min(step_bytes, end - at);
    fill_pattern(data.data(), bytes, contents.begin + at, contents.seed);
    if (is_foreign(cell.order)) swap_bytes(data.data(), bytes, cell.element_bytes);
    file.write(data.data(), bytes, at);
  }
  const bool of_group = !cell.group.empty();  // of which others may read it
  const bool is_read = cell.operation == MeasuredOperation::read || cell.mixes() || of_group;
  if (is_read || cell.direct || cell.syncs()) file.sync();
}

void complete_written(const Cell& cell, std::uint64_t pattern_seed,
                      const std::vector<std::uint64_t>& calls_of_part) {
  for (unsigned i = 0; i < cell.threads; ++i)
    complete_part(cell, pattern_seed, i, calls_of_part[i]);
}

void complete_part(const Cell& cell, std::uint64_t pattern_seed, unsigned index,
                   std::uint64_t calls) {
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<unsigned char> data(bytes);
  const ThreadPart part = part_of(cell, index);
  const StoredFile file(file_path(cell, part.file), O_WRONLY);
  const std::vector<bool> written = places_of(cell, index, calls);
  for (std::uint64_t place = 0; place < written.size(); ++place) {
    if (written[place]) continue;
    const std::uint64_t offset = part.offset_of(place);
    fill_pattern(data.data(), bytes, offset, file_seed(pattern_seed, part.file));
    file.write(data.data(), bytes, offset);
  }
}

}  // namespace ferry::bench
