// Which files Ferry has alone, without the MPI library.
#pragma once

#include <string>

namespace ferry::mpiio {

struct NamedFile {
  std::string path;    // for Ferry: a URI, or a path without the name of a ROMIO driver
  bool alone = false;  // the MPI library cannot open it
};

// Of the path that a program gives: a URI, a path below a mapped folder (FERRY_MPIIO_MAP, lines of
// FOLDER=URI), or any other.
NamedFile place_of(const std::string& path);

}  // namespace ferry::mpiio
