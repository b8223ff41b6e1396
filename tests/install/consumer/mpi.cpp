#include <cstdio>
#include <span>
#include <string>

#include <fcntl.h>

#include <ferry/collective.hpp>

// Reads the given file through libferry_mpi and prints it.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  {
    ferry::collective::File file(MPI_COMM_WORLD, argv[1], O_RDONLY);
    std::string contents(static_cast<std::size_t>(file.size_bytes()), ' ');
    file.read_all(std::as_writable_bytes(std::span(contents)));
    std::fputs(contents.c_str(), stdout);
  }
  MPI_Finalize();
  return 0;
}
