// The variables that Ferry adds to those of the MPI library in MPI's tool interface.
//
// Performance variables come twice: for all files of this process, and bound to one file. Control
// variables are the defaults of hints (hint_defaults.hpp). All are in one category.
#pragma once

#include <string>
#include <vector>

#include <mpi.h>

#include "mpiio/tally.hpp"

namespace ferry::mpiio {

struct PerformanceVariable {
  std::string name;
  std::string description;
  Number number;
  int variable_class;
  int verbosity;
  bool of_a_file;

  // A level is what it is: tools neither start nor change it.
  bool is_level() const { return variable_class == MPI_T_PVAR_CLASS_LEVEL; }
  bool is_time() const { return variable_class == MPI_T_PVAR_CLASS_TIMER; }
  int binding() const { return of_a_file ? MPI_T_BIND_MPI_FILE : MPI_T_BIND_NO_OBJECT; }
  // Times are in seconds, as the standard wants them.
  MPI_Datatype type() const { return is_time() ? MPI_DOUBLE : MPI_UNSIGNED_LONG_LONG; }
};

struct ControlVariable {
  std::string name;
  std::string description;
  std::string hint;
};

// In the order of their indices, which never changes.
const std::vector<PerformanceVariable>& performance_variables();
const std::vector<ControlVariable>& control_variables();

// Bytes of a control variable's value, with the zero at its end.
inline constexpr int control_bytes = 64;

inline constexpr const char* category_name = "ferry";
inline constexpr const char* category_description =
    "MPI-IO that Ferry carries out in the place of the MPI library";

}  // namespace ferry::mpiio
