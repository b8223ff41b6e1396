// What each rank of a program saw, in one line.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <mpi.h>

inline int rank = 0;
inline int ranks = 0;

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
