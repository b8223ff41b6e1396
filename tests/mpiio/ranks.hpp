// What each rank of a program saw, in one line.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <mpi.h>

inline int rank = 0;
inline int ranks = 0;

inline void begin(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

inline std::string class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  switch (error_class) {
    case MPI_SUCCESS:
      return "done";
    case MPI_ERR_NO_SUCH_FILE:
      return "no such file";
    case MPI_ERR_FILE_EXISTS:
      return "file exists";
    case MPI_ERR_ARG:
      return "argument";
    case MPI_ERR_ACCESS:
      return "access";
    case MPI_ERR_UNSUPPORTED_OPERATION:
      return "unsupported";
    case MPI_ERR_CONVERSION:
      return "conversion";
    case MPI_ERR_DUP_DATAREP:
      return "duplicate";
    default:
      return "class " + std::to_string(error_class);
  }
}

// Collective. The first rank prints them all.
inline void print(const char* name, const std::string& seen) {
  constexpr int bytes = 120;
  std::vector<char> all(static_cast<std::size_t>(bytes * ranks));
  char own[bytes] = {};
  seen.copy(own, bytes - 1);
  MPI_Gather(own, bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  std::printf("%s:", name);
  for (int i = 0; i < ranks; ++i)
    std::printf(" [%s]", all.data() + static_cast<std::ptrdiff_t>(i * bytes));
  std::printf("\n");
}
