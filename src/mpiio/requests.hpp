// Statuses and requests of the MPI library, for what Ferry has carried out or begun.
#pragma once

#include <cstdint>
#include <functional>

#include <mpi.h>

#include <ferry/collective.hpp>

namespace ferry::mpiio {

// How many bytes were moved.
void fill_in(MPI_Status* status, std::int64_t bytes);

// Of a transfer that is done already.
void make_done(MPI_Request* request, std::int64_t bytes);

// Whether there can be such requests: if a thread carries out their transfers, or the MPI library
// asks requests whether they are done, as MPICH's does.
bool can_be_pending();

// Of a nonblocking transfer: done when that is. Without a thread for it (see collective::Transfer),
// waiting and testing carry it out; only waiting waits for the other ranks. Where MPI allows one
// thread, a request is only seen to be done where the program waits for it, tests it or looks.
// An error goes to the file's error handler, and waiting fails; MPICH's then returns
// MPI_ERR_OTHER. `finish` gets the bytes that were moved, and returns those that the program sees,
// or throws.
void make_pending(MPI_Request* request, MPI_File handle, collective::Transfer transfer,
                  std::function<std::int64_t(std::int64_t)> finish);

// Destroys those that the program has freed and that are done.
void destroy_freed();

// Looks at all of them, where MPI allows one thread. See calls.hpp.
void look_at_pending();

}  // namespace ferry::mpiio
