#include "harness/layout.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <random>

#include "storage/uri.hpp"

namespace ferry::bench {

ThreadPart part_of(const Cell& cell, unsigned index) {
  ThreadPart part;
  part.step_bytes = cell.stride_bytes != 0 ? cell.stride_bytes : cell.call_bytes();
  part.calls_per_block = cell.calls_per_thread();
  part.segment_bytes = cell.part_bytes();
  part.begin = cell.offset_bytes;
  if (cell.file_per_thread || cell.same_part) {
    if (cell.file_per_thread) part.file = index;
    return part;
  }
  part.calls_per_block = cell.calls_per_thread() / cell.segments;
  const std::uint64_t block_bytes = part.calls_per_block * part.step_bytes;
  part.begin += index * block_bytes;
  part.segment_bytes = block_bytes * cell.threads;
  return part;
}

unsigned file_count(const Cell& cell) {
  if (cell.is_in_pieces())
    return static_cast<unsigned>(cell.total_bytes / cell.piece_of_file_bytes());
  if (cell.file_per_writer) return cell.writers;
  return cell.file_per_thread ? cell.threads : 1;
}

std::string file_path(const Cell& cell, unsigned file) {
  const bool several = cell.file_per_thread || cell.file_per_writer || cell.is_in_pieces();
  if (!several) return cell.path;
  const std::size_t digits = cell.file_per_writer ? std::to_string(cell.writers - 1).size() : 8;
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), ".%0*u", static_cast<int>(digits), file);
  std::string path = cell.path;
  return path.insert(storage::path_end(path), number.data());
}

std::uint64_t file_bytes(const Cell& cell, unsigned file) {
  if (cell.file_per_writer)
    return (first_rank_of(cell, file + 1) - first_rank_of(cell, file)) * cell.part_bytes();
  if (cell.same_part) return cell.offset_bytes + cell.part_bytes();
  return cell.offset_bytes + cell.span_bytes() / file_count(cell);
}

unsigned first_rank_of(const Cell& cell, unsigned file) {
  const unsigned files = file_count(cell);
  return static_cast<unsigned>((std::uint64_t{file} * cell.threads + files - 1) / files);
}

PatternPlace contents_of(const Cell& cell, std::uint64_t seed, unsigned file) {
  if (cell.is_in_pieces()) return {seed, file * cell.piece_of_file_bytes()};
  return {file_seed(seed, file), 0};
}

Place place_of(const Cell& cell, const ThreadPart& part, std::uint64_t offset) {
  if (!cell.is_in_pieces()) return {part.file, offset};
  const std::uint64_t bytes = cell.piece_of_file_bytes();
  return {static_cast<unsigned>(offset / bytes), offset % bytes};
}

std::uint64_t files_of_part(const Cell& cell) {
  return cell.is_in_pieces() ? cell.part_bytes() / cell.piece_of_file_bytes() : 1;
}

std::vector<unsigned> parts_by_thread(const Cell& cell, unsigned repeat) {
  std::vector<unsigned> parts(cell.threads);
  std::iota(parts.begin(), parts.end(), 0U);
  if (cell.reorder == Reorder::neighbour)
    std::rotate(parts.begin(), parts.begin() + 1, parts.end());
  if (cell.reorder == Reorder::random) {
    std::mt19937_64 generator(cell.seed + repeat);
    std::shuffle(parts.begin(), parts.end(), generator);
  }
  return parts;
}

}  // namespace ferry::bench
