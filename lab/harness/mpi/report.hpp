// The JSON lines of ferry-bench-mpi. Only rank 0 prints.
#pragma once

#include <optional>
#include <string>

#include "harness/mpi/cell_run.hpp"
#include "programs/file_cache.hpp"
#include "storage/layout.hpp"

namespace ferry::bench::mpi {

// All throw ferry::Error when standard output takes nothing more.
void print_environment(const Plan& plan, int ranks);
void print_sample(const Cell& cell, int repeat, const Sample& sample,
                  std::optional<CacheState> state, const std::optional<storage::Layout>& layout);
void print_done();
// `cell` may be empty.
void print_error(const std::string& cell, int error_number, const std::string& message);
// What was built: the MPI library, and how its programs are started.
void print_info();

}  // namespace ferry::bench::mpi
