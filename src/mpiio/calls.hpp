// The functions of MPI-IO that Ferry stands in front of: CALL(what follows "MPI_File_", kind). All
// others go straight to the MPI library, on the same handles: see opened_file.hpp.
//
//   OWN         has a function of its own in calls.cpp
//   COLLECTIVE  a collective transfer: Ferry carries it out
//   SINGLE      a transfer of one rank: Ferry carries it out for files that it has alone
//   THEIRS      the MPI library carries it out, and it is an error for files that Ferry has alone
#pragma once

#define FERRY_MPIIO_CALLS(CALL)        \
  CALL(open, OWN)                      \
  CALL(close, OWN)                     \
  CALL(delete, OWN)                    \
  CALL(set_view, OWN)                  \
  CALL(set_atomicity, OWN)             \
  CALL(sync, OWN)                      \
  CALL(seek, OWN)                      \
  CALL(get_info, OWN)                  \
  CALL(get_amode, OWN)                 \
  CALL(get_size, OWN)                  \
  CALL(set_size, OWN)                  \
  CALL(preallocate, OWN)               \
  CALL(read_all, COLLECTIVE)           \
  CALL(write_all, COLLECTIVE)          \
  CALL(read_at_all, COLLECTIVE)        \
  CALL(write_at_all, COLLECTIVE)       \
  CALL(read_all_begin, COLLECTIVE)     \
  CALL(read_all_end, COLLECTIVE)       \
  CALL(write_all_begin, COLLECTIVE)    \
  CALL(write_all_end, COLLECTIVE)      \
  CALL(read_at_all_begin, COLLECTIVE)  \
  CALL(read_at_all_end, COLLECTIVE)    \
  CALL(write_at_all_begin, COLLECTIVE) \
  CALL(write_at_all_end, COLLECTIVE)   \
  CALL(read, SINGLE)                   \
  CALL(write, SINGLE)                  \
  CALL(read_at, SINGLE)                \
  CALL(write_at, SINGLE)               \
  CALL(iread, SINGLE)                  \
  CALL(iwrite, SINGLE)                 \
  CALL(iread_at, SINGLE)               \
  CALL(iwrite_at, SINGLE)              \
  CALL(iread_all, THEIRS)              \
  CALL(iwrite_all, THEIRS)             \
  CALL(iread_at_all, THEIRS)           \
  CALL(iwrite_at_all, THEIRS)          \
  CALL(read_shared, THEIRS)            \
  CALL(write_shared, THEIRS)           \
  CALL(iread_shared, THEIRS)           \
  CALL(iwrite_shared, THEIRS)          \
  CALL(seek_shared, THEIRS)            \
  CALL(get_position_shared, THEIRS)    \
  CALL(read_ordered, THEIRS)           \
  CALL(write_ordered, THEIRS)          \
  CALL(read_ordered_begin, THEIRS)     \
  CALL(read_ordered_end, THEIRS)       \
  CALL(write_ordered_begin, THEIRS)    \
  CALL(write_ordered_end, THEIRS)      \
  FERRY_MPIIO_LARGE_CALLS(CALL)

// Those with large counts, which MPI has from its version 4 on.
#define FERRY_MPIIO_LARGE_CALLS(CALL)    \
  CALL(read_all_c, COLLECTIVE)           \
  CALL(write_all_c, COLLECTIVE)          \
  CALL(read_at_all_c, COLLECTIVE)        \
  CALL(write_at_all_c, COLLECTIVE)       \
  CALL(read_all_begin_c, COLLECTIVE)     \
  CALL(write_all_begin_c, COLLECTIVE)    \
  CALL(read_at_all_begin_c, COLLECTIVE)  \
  CALL(write_at_all_begin_c, COLLECTIVE) \
  CALL(read_c, SINGLE)                   \
  CALL(write_c, SINGLE)                  \
  CALL(read_at_c, SINGLE)                \
  CALL(write_at_c, SINGLE)               \
  CALL(iread_c, SINGLE)                  \
  CALL(iwrite_c, SINGLE)                 \
  CALL(iread_at_c, SINGLE)               \
  CALL(iwrite_at_c, SINGLE)              \
  CALL(iread_all_c, THEIRS)              \
  CALL(iwrite_all_c, THEIRS)             \
  CALL(iread_at_all_c, THEIRS)           \
  CALL(iwrite_at_all_c, THEIRS)          \
  CALL(read_shared_c, THEIRS)            \
  CALL(write_shared_c, THEIRS)           \
  CALL(iread_shared_c, THEIRS)           \
  CALL(iwrite_shared_c, THEIRS)          \
  CALL(read_ordered_c, THEIRS)           \
  CALL(write_ordered_c, THEIRS)          \
  CALL(read_ordered_begin_c, THEIRS)     \
  CALL(write_ordered_begin_c, THEIRS)

namespace ferry::mpiio {

// Indices of tables with one entry per function.
enum class CallIndex : int {
#define FERRY_MPIIO_INDEX(name, kind) file_##name,
  FERRY_MPIIO_CALLS(FERRY_MPIIO_INDEX)
#undef FERRY_MPIIO_INDEX
      count
};
inline constexpr int call_count = static_cast<int>(CallIndex::count);

// What libferry_mpiio_calls exports as "ferry_mpiio_take": it is given the MPI library's functions
// and puts Ferry's into their places. An entry is null where the library has no such function.
using Take = void(void** functions);

}  // namespace ferry::mpiio
