// The MPI library's own functions, which Ferry's stand in front of.
#pragma once

#include <mpi.h>

#include "mpiio/calls.hpp"

// The functions that mpi.h declares.
#if MPI_VERSION >= 4
#define FERRY_MPIIO_CALLS(CALL) FERRY_MPIIO_SMALL_CALLS(CALL) FERRY_MPIIO_LARGE_CALLS(CALL)
#define FERRY_MPIIO_TOOL_CALLS(CALL) \
  FERRY_MPIIO_BASIC_TOOL_CALLS(CALL) FERRY_MPIIO_EVENT_CALLS(CALL)
#else
#define FERRY_MPIIO_CALLS FERRY_MPIIO_SMALL_CALLS
#define FERRY_MPIIO_TOOL_CALLS FERRY_MPIIO_BASIC_TOOL_CALLS
#endif

namespace ferry::mpiio {

// By their names after "MPI_" ("tool_": after "MPI_T_"); null where the library has none.
struct MpiFunctions {
#define FERRY_MPIIO_MEMBER(name, kind) decltype(&PMPI_File_##name) file_##name = nullptr;
  FERRY_MPIIO_CALLS(FERRY_MPIIO_MEMBER)
#undef FERRY_MPIIO_MEMBER
#define FERRY_MPIIO_MEMBER(name, length) decltype(&PMPI_T_##name) tool_##name = nullptr;
  FERRY_MPIIO_TOOL_CALLS(FERRY_MPIIO_MEMBER)
#undef FERRY_MPIIO_MEMBER
  decltype(&PMPI_Register_datarep) register_datarep = nullptr;
#if MPI_VERSION >= 4
  decltype(&PMPI_Register_datarep_c) register_datarep_c = nullptr;
#endif
};

// Puts `ours` into the place of the library's function, and keeps that.
template <class Function>
void stand_in(Function*& kept, void*& entry, Function* ours) {
  if (entry == nullptr) return;
  kept = reinterpret_cast<Function*>(entry);
  entry = reinterpret_cast<void*>(ours);
}

// Whether MPI_File_call_errhandler takes MPI_FILE_NULL. Open MPI's ends the program instead.
#ifdef OPEN_MPI
inline constexpr bool library_reports_without_file = false;
#else
inline constexpr bool library_reports_without_file = true;
#endif

// Whether the library shows the text of a code that was added to one of its own classes. MPICH 4.0
// shows another one's.
#ifdef MPICH_VERSION
inline constexpr bool library_shows_added_texts = false;
#else
inline constexpr bool library_shows_added_texts = true;
#endif

// Whether MPI_Finalize fails where windows are left, and deletes the attributes of MPI_COMM_WORLD
// while communicators still work.
#ifdef MPICH_VERSION
inline constexpr bool library_needs_closed_files = true;
#else
inline constexpr bool library_needs_closed_files = false;
#endif

// Whether the library's functions for Fortran pass a program's subroutines to its functions in C.
#ifdef MPICH_VERSION
inline constexpr bool library_passes_subroutines = true;
#else
inline constexpr bool library_passes_subroutines = false;
#endif

// Written once, before the first call.
MpiFunctions& library();

}  // namespace ferry::mpiio
