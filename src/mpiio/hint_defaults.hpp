// Hints that a tool has set for all files: MPI_T's control variables. They are as if each file that
// is opened afterwards had them in its info, which comes first.
#pragma once

#include <string>

#include <mpi.h>

namespace ferry::mpiio {

// Thread-safe. A hint is one of collective::hint_names(); empty: none is set.
std::string hint_default(const std::string& hint);
// Whether it takes the value; an empty one ends it.
bool set_hint_default(const std::string& hint, const std::string& value);

// A program's info with these. It is the program's own if there are none.
class InfoWithDefaults {
 public:
  explicit InfoWithDefaults(MPI_Info asked);
  ~InfoWithDefaults();
  InfoWithDefaults(const InfoWithDefaults&) = delete;
  InfoWithDefaults& operator=(const InfoWithDefaults&) = delete;

  MPI_Info info() const { return info_; }

 private:
  const MPI_Info asked_;
  MPI_Info info_;
};

}  // namespace ferry::mpiio
