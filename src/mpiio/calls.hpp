// The functions of MPI-IO that Ferry stands in front of: CALL(what follows "MPI_File_", kind). All
// others go straight to the MPI library, on the same handles: see opened_file.hpp.
//
//   OWN         has a function of its own in calls.cpp
//   COLLECTIVE  a collective transfer: Ferry carries it out
//
// Transfers that Ferry carries out for files that it has alone:
//
//   STARTED     a nonblocking collective one
//   ORDERED     a collective one at the shared file pointer
//   SINGLE      one rank's
//   SHARED      one rank's at the shared file pointer
#pragma once

#define FERRY_MPIIO_SMALL_CALLS(CALL)  \
  CALL(open, OWN)                      \
  CALL(close, OWN)                     \
  CALL(delete, OWN)                    \
  CALL(set_view, OWN)                  \
  CALL(get_view, OWN)                  \
  CALL(get_type_extent, OWN)           \
  CALL(set_atomicity, OWN)             \
  CALL(sync, OWN)                      \
  CALL(seek, OWN)                      \
  CALL(get_position, OWN)              \
  CALL(get_byte_offset, OWN)           \
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
  CALL(iread_all, STARTED)             \
  CALL(iwrite_all, STARTED)            \
  CALL(iread_at_all, STARTED)          \
  CALL(iwrite_at_all, STARTED)         \
  CALL(read_shared, SHARED)            \
  CALL(write_shared, SHARED)           \
  CALL(iread_shared, SHARED)           \
  CALL(iwrite_shared, SHARED)          \
  CALL(seek_shared, OWN)               \
  CALL(get_position_shared, OWN)       \
  CALL(read_ordered, ORDERED)          \
  CALL(write_ordered, ORDERED)         \
  CALL(read_ordered_begin, ORDERED)    \
  CALL(read_ordered_end, ORDERED)      \
  CALL(write_ordered_begin, ORDERED)   \
  CALL(write_ordered_end, ORDERED)

// Those with large counts, which MPI has from its version 4 on.
#define FERRY_MPIIO_LARGE_CALLS(CALL)    \
  CALL(get_type_extent_c, OWN)           \
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
  CALL(iread_all_c, STARTED)             \
  CALL(iwrite_all_c, STARTED)            \
  CALL(iread_at_all_c, STARTED)          \
  CALL(iwrite_at_all_c, STARTED)         \
  CALL(read_shared_c, SHARED)            \
  CALL(write_shared_c, SHARED)           \
  CALL(iread_shared_c, SHARED)           \
  CALL(iwrite_shared_c, SHARED)          \
  CALL(read_ordered_c, ORDERED)          \
  CALL(write_ordered_c, ORDERED)         \
  CALL(read_ordered_begin_c, ORDERED)    \
  CALL(write_ordered_begin_c, ORDERED)

// Those that make names of data representations known: CALL(what follows "MPI_"). They have a word
// more than MPI's: whether the program calls them in Fortran.
#define FERRY_MPIIO_REPRESENTATION_CALLS(CALL) CALL(Register_datarep)
#define FERRY_MPIIO_LARGE_REPRESENTATION_CALLS(CALL) CALL(Register_datarep_c)

// The functions of MPI's tool interface (MPI 4.0, chapter 15) that do so, too, to show variables of
// Ferry's: CALL(what follows "MPI_T_", SHORT or LONG: at most six parameters, or at most thirteen).
#define FERRY_MPIIO_BASIC_TOOL_CALLS(CALL) \
  CALL(init_thread, SHORT)                 \
  CALL(finalize, SHORT)                    \
  CALL(pvar_get_num, SHORT)                \
  CALL(pvar_get_info, LONG)                \
  CALL(pvar_get_index, SHORT)              \
  CALL(pvar_session_create, SHORT)         \
  CALL(pvar_session_free, SHORT)           \
  CALL(pvar_handle_alloc, SHORT)           \
  CALL(pvar_handle_free, SHORT)            \
  CALL(pvar_start, SHORT)                  \
  CALL(pvar_stop, SHORT)                   \
  CALL(pvar_read, SHORT)                   \
  CALL(pvar_write, SHORT)                  \
  CALL(pvar_reset, SHORT)                  \
  CALL(pvar_readreset, SHORT)              \
  CALL(cvar_get_num, SHORT)                \
  CALL(cvar_get_info, LONG)                \
  CALL(cvar_get_index, SHORT)              \
  CALL(cvar_handle_alloc, SHORT)           \
  CALL(cvar_handle_free, SHORT)            \
  CALL(cvar_read, SHORT)                   \
  CALL(cvar_write, SHORT)                  \
  CALL(category_get_num, SHORT)            \
  CALL(category_get_info, LONG)            \
  CALL(category_get_index, SHORT)          \
  CALL(category_get_cvars, SHORT)          \
  CALL(category_get_pvars, SHORT)          \
  CALL(category_get_categories, SHORT)

// Those of events, which MPI has from its version 4 on, too.
#define FERRY_MPIIO_EVENT_CALLS(CALL)  \
  CALL(category_get_num_events, SHORT) \
  CALL(category_get_events, SHORT)

namespace ferry::mpiio {

// Indices of tables with one entry per function, whatever the version of MPI.
enum class CallIndex : int {
#define FERRY_MPIIO_INDEX(name, kind) file_##name,
  FERRY_MPIIO_SMALL_CALLS(FERRY_MPIIO_INDEX) FERRY_MPIIO_LARGE_CALLS(FERRY_MPIIO_INDEX)
#undef FERRY_MPIIO_INDEX
#define FERRY_MPIIO_INDEX(name, length) tool_##name,
      FERRY_MPIIO_BASIC_TOOL_CALLS(FERRY_MPIIO_INDEX) FERRY_MPIIO_EVENT_CALLS(FERRY_MPIIO_INDEX)
#undef FERRY_MPIIO_INDEX
#define FERRY_MPIIO_INDEX(name) name,
          FERRY_MPIIO_REPRESENTATION_CALLS(FERRY_MPIIO_INDEX)
              FERRY_MPIIO_LARGE_REPRESENTATION_CALLS(FERRY_MPIIO_INDEX)
#undef FERRY_MPIIO_INDEX
                  count
};
inline constexpr int call_count = static_cast<int>(CallIndex::count);

// What libferry_mpiio_calls exports as "ferry_mpiio_take": it is given the MPI library's functions
// and puts Ferry's into their places. An entry is null where the library has no such function, and
// becomes null where Ferry was built for a library that has none with large counts.
using Take = void(void** functions);

// And as "ferry_mpiio_text": the text of an error code of Ferry's, null for others.
using TextOf = const char*(int code);

// And as "ferry_mpiio_look": tells the library which of Ferry's requests are done, where only the
// program's thread may do that and a function of the library's does not ask.
using Look = void();

}  // namespace ferry::mpiio
