// A checkpoint of a three-dimensional field, decomposed in X and Y over the ranks, in one shared
// file. Any number of ranks writes it, and any number reads it back.
//
//   mpiexec -n 16 ferry-checkpoint write /data/field
//   mpiexec -n 9 ferry-checkpoint read /data/field
//
// The file is one array field[z][y][x] of doubles, independent of the decomposition.
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <mpi.h>

#include <ferry/collective.hpp>

namespace {

using ferry::collective::File;
using ferry::collective::Options;
using ferry::collective::Statistics;
using ferry::collective::TypeMap;

constexpr std::int64_t size_x = 240;
constexpr std::int64_t size_y = 180;
constexpr std::int64_t size_z = 20;

// The field's value at a point; all differ.
double value_at(std::int64_t x, std::int64_t y, std::int64_t z) {
  return static_cast<double>((z * size_y + y) * size_x + x);
}

// The block of one rank in X and Y, with all of Z.
struct Block {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t count_x = 0;
  std::int64_t count_y = 0;

  // `rows`: number of ranks along Y.
  Block(MPI_Comm communicator, int& rows) {
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    std::array<int, 2> grid{0, 0};
    MPI_Dims_create(ranks, 2, grid.data());
    rows = grid[0];
    const std::int64_t row = rank / grid[1];
    const std::int64_t column = rank % grid[1];
    x = column * size_x / grid[1];
    y = row * size_y / grid[0];
    count_x = (column + 1) * size_x / grid[1] - x;
    count_y = (row + 1) * size_y / grid[0] - y;
  }
  TypeMap view() const {
    return TypeMap::subarray(std::array{size_z, size_y, size_x},
                             std::array{size_z, count_y, count_x},
                             std::array{std::int64_t{0}, y, x}, sizeof(double));
  }
  std::vector<double> values() const {
    std::vector<double> values;
    for (std::int64_t k = 0; k < size_z; ++k)
      for (std::int64_t j = 0; j < count_y; ++j)
        for (std::int64_t i = 0; i < count_x; ++i)
          values.push_back(value_at(x + i, y + j, k));
    return values;
  }
};

void report(const Statistics& statistics) {
  std::printf("method %s with %d writers: %s\n%s\n", name_of(statistics.method), statistics.writers,
              statistics.reason.c_str(), to_json(statistics).c_str());
}

// Whether all values are right.
bool run(bool writes, const std::string& path) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Options options;
  // One writer per row of the decomposition: what it gathers is contiguous in each plane.
  const Block block(MPI_COMM_WORLD, options.writers);
  std::vector<double> field = block.values();
  File file(MPI_COMM_WORLD, path, writes ? O_CREAT | O_TRUNC | O_WRONLY : O_RDONLY, options);
  file.set_view(0, block.view());
  bool right = true;
  if (writes) {
    file.write_all(std::as_bytes(std::span(field)));
    file.sync();
  } else {
    std::vector<double> got(field.size());
    const auto bytes = static_cast<std::int64_t>(got.size() * sizeof(double));
    right = file.read_all(std::as_writable_bytes(std::span(got))) == bytes && got == field;
    if (!right) std::fprintf(stderr, "ferry-checkpoint: rank %d has read something else\n", rank);
  }
  const Statistics statistics = file.statistics();
  file.close();
  if (rank == 0) report(statistics);
  int wrong = right ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return wrong == 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string verb = argc == 3 ? argv[1] : "";
  int status = 2;
  if (verb != "write" && verb != "read") {
    if (rank == 0) std::fprintf(stderr, "usage: ferry-checkpoint write|read FILE\n");
  } else {
    try {
      status = run(verb == "write", argv[2]) ? 0 : 1;
    } catch (const ferry::Error& error) {
      status = 1;  // the same on all ranks
      if (rank == 0) std::fprintf(stderr, "ferry-checkpoint: %s\n", error.what());
    }
  }
  MPI_Finalize();
  return status;
}
