// Assigns bytes of files to threads, and names the files.
//
// A part is the data that one thread writes or reads. In a shared file it has one block in every
// segment: block 0 of part 0, block 0 of part 1, and so on, then block 1 of part 0. With a file per
// thread, or one that all go over from end to end, a part is a whole file. With a file per transfer
// (program `files`), or many open files, parts are laid out as in a shared file cut into pieces.
// Parts begin behind `offset_bytes` of each file.
// For ranks see harness/mpi/rank_part.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/part.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

ThreadPart part_of(const Cell& cell, unsigned index);

unsigned file_count(const Cell& cell);
// With several files PATH.00000000, PATH.00000001 and so on, as IOR names them, or for writers as
// libferry_mpi does, with as many digits as the last one needs; before a URI's query.
std::string file_path(const Cell& cell, unsigned file);
std::uint64_t file_bytes(const Cell& cell, unsigned file);
// The first of the neighbouring ranks that share a file, as libferry_mpi divides them; for the file
// behind the last, how many ranks there are.
unsigned first_rank_of(const Cell& cell, unsigned file);

// The pattern of one file of a cell whose pattern is `seed`: no two files hold the same.
inline std::uint64_t file_seed(std::uint64_t seed, unsigned file) {
  return seed + (std::uint64_t{file} << 32);
}

// The pattern of what a cell writes over, of a file or of all: other contents than it brings.
inline std::uint64_t made_seed_of(std::uint64_t seed) {
  return seed + 1;
}

// Where in the pattern of which seed the contents of a file begin.
struct PatternPlace {
  std::uint64_t seed = 0;
  std::uint64_t begin = 0;
};
PatternPlace contents_of(const Cell& cell, std::uint64_t seed, unsigned file);

// The file, and where in it, that `offset` of a part (ThreadPart::offset_of) lies.
struct Place {
  unsigned file = 0;
  std::uint64_t offset = 0;
};
Place place_of(const Cell& cell, const ThreadPart& part, std::uint64_t offset);
// How many files the part of a thread lies in.
std::uint64_t files_of_part(const Cell& cell);

// The part that each thread works on: its own, or another's where the cell reorders.
std::vector<unsigned> parts_by_thread(const Cell& cell, unsigned repeat);

}  // namespace ferry::bench
