// libferry_mpiio_calls.so: what Ferry does in the place of the MPI library's functions.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "collective/datatype.hpp"
#include "mpiio/errors.hpp"
#include "mpiio/hint_defaults.hpp"
#include "mpiio/library.hpp"
#include "mpiio/opened_files.hpp"
#include "mpiio/places.hpp"
#include "mpiio/romio_hints.hpp"
#include "mpiio/tool_calls.hpp"

namespace ferry::mpiio {

MpiFunctions& library() {
  static MpiFunctions functions;
  return functions;
}

namespace {

// Gives an error to the handle's error handler, and returns it.
int report(MPI_File handle, int code) {
  if (handle != MPI_FILE_NULL || library_reports_without_file) {
    call_handler(handle, code);
    return code;
  }
  // A new handle has the handler of MPI_FILE_NULL.
  MPI_File other = MPI_FILE_NULL;
  if (library().file_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &other) ==
      MPI_SUCCESS) {
    call_handler(other, code);
    library().file_close(&other);
  }
  return code;
}

// Runs `body`; an exception becomes an error of the handle.
template <class Body>
int guarded(MPI_File handle, Body&& body) {
  try {
    body();
    return MPI_SUCCESS;
  } catch (...) {
    return report(handle, code_of_exception());
  }
}

std::shared_ptr<OpenedFile> find(MPI_File handle) {
  return OpenedFiles::get().find(handle);
}

bool is_alone(const std::shared_ptr<OpenedFile>& file) {
  return file != nullptr && file->is_alone();
}

// ---- one line for each file --------------------------------------------------------------------

// Where the user wants it; null: nowhere.
const char* summary_place() {
  static const char* place = std::getenv("FERRY_RUN_SUMMARY");
  return place;
}

void summarise(const std::string& text) {
  if (summary_place() == nullptr) return;
  const std::string line = "ferry-run: " + text + "\n";
  const bool on_stderr = std::strcmp(summary_place(), "-") == 0;
  const int file = on_stderr
                       ? STDERR_FILENO
                       : open(summary_place(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return;
  // A summary that cannot be written must not disturb the program.
  static_cast<void>(write(file, line.data(), line.size()) < 0);
  if (!on_stderr) ::close(file);
}

// ---- files that a program does not close ------------------------------------------------------

// The standard wants files to be closed before MPI_Finalize. MPI libraries take it if they are not;
// but windows that stay make MPICH abort the program. It deletes the attributes of MPI_COMM_WORLD
// just before it ends, and behind those of MPI_COMM_SELF: by these, HDF5 closes its files. Other
// libraries end communicators earlier, so there the files only become durable.
int end_all(MPI_Comm /*communicator*/, int /*key*/, void* /*value*/, void* /*state*/) {
  for (const auto& [handle, file] : OpenedFiles::get().all()) {
    try {
      if (library_needs_closed_files) {
        file->close();
      } else if (file->is_alone()) {
        file->sync();
      }
    } catch (const std::exception& error) {  // nobody is left to return it to
      if (file->is_first_rank()) std::fprintf(stderr, "ferry: %s\n", error.what());
    }
    if (file->is_first_rank()) summarise(file->summary());
    // What calls one that Ferry has alone after that gets an error.
    if (!file->is_alone()) OpenedFiles::get().remove(handle);
  }
  return MPI_SUCCESS;
}

void add(MPI_File handle, std::shared_ptr<OpenedFile> file) {
  OpenedFiles::get().add(handle, std::move(file));
  static const bool is_asked = [] {
    int is_initialized = 0;  // a program of sessions has neither communicator
    PMPI_Initialized(&is_initialized);
    int key = MPI_KEYVAL_INVALID;
    return is_initialized != 0 &&
           PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_all, &key, nullptr) == MPI_SUCCESS &&
           PMPI_Comm_set_attr(library_needs_closed_files ? MPI_COMM_WORLD : MPI_COMM_SELF, key,
                              nullptr) == MPI_SUCCESS;
  }();
  static_cast<void>(is_asked);
}

// ---- functions of their own --------------------------------------------------------------------

// If the user wants to see them: those in force.
void show_hints(const OpenedFile& file, MPI_File handle) {
  MPI_Info info = MPI_INFO_NULL;
  if (!shall_print_hints() || !file.is_first_rank()) return;
  if (library().file_get_info(handle, &info) != MPI_SUCCESS) return;
  file.add_hints(info);
  print_hints(info);
  PMPI_Info_free(&info);
}

// Opens a file by `open()`, which is collective: the other ranks wait for one without memory, so it
// ends the job.
template <class Open>
void opening(MPI_Comm communicator, const std::string& path, const Open& open) {
  try {
    open();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "ferry: no memory for opening %s\n", path.c_str());
    PMPI_Abort(communicator, EXIT_FAILURE);
    throw;
  }
}

// Files that the MPI library has, too. If Ferry cannot have it, the library has it all the same.
void open_beside(MPI_Comm communicator, const std::string& path, int mode, MPI_Info info,
                 MPI_File handle) {
  try {
    opening(communicator, path, [&] {
      const auto file = std::make_shared<OpenedFile>(communicator, handle, path, mode, info);
      add(handle, file);
      show_hints(*file, handle);
    });
  } catch (const std::exception& error) {
    const std::string why = std::string("the MPI library does all MPI-IO: ") + error.what();
    if (rank_in(communicator) == 0 && !is_disabled(info, hints_of_the_environment()))
      summarise(why);
  }
}

// Files that the MPI library does not have: it gets a handle of /dev/null, for the communicator
// and the view.
int open_alone(MPI_Comm communicator, const std::string& path, int mode, MPI_Info info,
               MPI_File* handle) {
  const int access = mode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR);
  const int makes = mode & (MPI_MODE_CREATE | MPI_MODE_EXCL);
  const bool in_sequence = (mode & MPI_MODE_SEQUENTIAL) != 0;
  // The library does not see these, or only after the file was made.
  const bool has_one =
      access == MPI_MODE_RDONLY || access == MPI_MODE_WRONLY || access == MPI_MODE_RDWR;
  if (!has_one || (access == MPI_MODE_RDONLY && makes != 0) ||
      (access == MPI_MODE_RDWR && in_sequence)) {
    return report(MPI_FILE_NULL, MPI_ERR_AMODE);
  }
  int result = MPI_SUCCESS;
  *handle = MPI_FILE_NULL;
  const int code = guarded(MPI_FILE_NULL, [&] {
    opening(communicator, path, [&] {
      const auto file = std::make_shared<OpenedFile>(communicator, path, mode, info, Alone{});
      result = library().file_open(communicator, "/dev/null", access, info, handle);
      if (result != MPI_SUCCESS) return;
      file->hold(*handle);
      add(*handle, file);
      show_hints(*file, *handle);
    });
  });
  return code != MPI_SUCCESS ? code : result;
}

int file_open(MPI_Comm communicator, const char* path, int mode, MPI_Info asked, MPI_File* handle) {
  const NamedFile place = place_of(path);
  const InfoWithDefaults with_defaults(asked);
  MPI_Info info = with_defaults.info();
  if (place.alone) return open_alone(communicator, place.path, mode, info, handle);
  const int result = library().file_open(communicator, path, mode, info, handle);
  // On all ranks or on none.
  if (result == MPI_SUCCESS) open_beside(communicator, place.path, mode, info, *handle);
  return result;
}

int file_close(MPI_File* handle) {
  const auto file = find(*handle);
  if (file == nullptr) return library().file_close(handle);
  OpenedFiles::get().remove(*handle);
  const int result = guarded(*handle, [&] { file->close(); });
  if (file->is_first_rank()) summarise(file->summary());
  const int closed = library().file_close(handle);
  return result != MPI_SUCCESS ? result : closed;
}

int file_delete(const char* path, MPI_Info info) {
  const NamedFile place = place_of(path);
  if (!place.alone) return library().file_delete(path, info);
  return guarded(MPI_FILE_NULL, [&] { remove_file(place.path); });
}

// The view that the library's handle has.
class LibraryView {
 public:
  explicit LibraryView(MPI_File handle) : handle_(handle) {
    library().file_get_view(handle, &displacement_, &types_[0], &types_[1], representation_);
  }
  ~LibraryView() {
    for (MPI_Datatype& type : types_)
      if (type != MPI_DATATYPE_NULL && !collective::is_named(type)) PMPI_Type_free(&type);
  }
  LibraryView(const LibraryView&) = delete;
  LibraryView& operator=(const LibraryView&) = delete;
  void restore() const {
    library().file_set_view(handle_, displacement_, types_[0], types_[1], representation_,
                            MPI_INFO_NULL);
  }

 private:
  const MPI_File handle_;
  MPI_Offset displacement_ = 0;
  MPI_Datatype types_[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  char representation_[MPI_MAX_DATAREP_STRING] = {};
};

int file_set_view(MPI_File handle, MPI_Offset displacement, MPI_Datatype etype,
                  MPI_Datatype filetype, const char* representation, MPI_Info info) {
  const auto file = find(handle);
  if (is_alone(file) && file->is_in_sequence() && displacement == MPI_DISPLACEMENT_CURRENT) {
    const int code = guarded(handle, [&] { displacement = file->shared_place(); });
    if (code != MPI_SUCCESS) return code;
  }
  std::optional<LibraryView> before;
  if (is_alone(file)) {
    const int code = guarded(handle, [&] { file->meet(); });
    if (code != MPI_SUCCESS) return code;
    before.emplace(handle);
  }
  const bool converts = is_alone(file) && representation_named(representation) != nullptr;
  // The library may take none of it, or end the program.
  const int result =
      converts
          ? library().file_set_view(handle, displacement, MPI_BYTE, MPI_BYTE, "native", info)
          : library().file_set_view(handle, displacement, etype, filetype, representation, info);
  if (file == nullptr) return result;
  const std::string why = file->set_view(result, displacement, etype, filetype, representation);
  if (why.empty() || !file->is_alone()) return result;
  before->restore();  // on all ranks
  if (result != MPI_SUCCESS) return result;
  return guarded(handle, [&] { throw Error(file->error_of_view(), why); });
}

int file_get_view(MPI_File handle, MPI_Offset* displacement, MPI_Datatype* etype,
                  MPI_Datatype* filetype, char* representation) {
  const int result = library().file_get_view(handle, displacement, etype, filetype, representation);
  const auto file = find(handle);
  const auto* const view = is_alone(file) ? file->converting_view() : nullptr;
  if (view == nullptr || result != MPI_SUCCESS) return result;
  *etype = copy_of(view->etype.get());
  *filetype = copy_of(view->filetype.get());
  std::strcpy(representation, view->representation.c_str());
  return result;
}

// With the extent as an MPI_Aint or an MPI_Count.
template <auto Member, class Extent>
int file_get_extent(MPI_File handle, MPI_Datatype type, Extent* extent) {
  const auto file = find(handle);
  if (!is_alone(file)) return (library().*Member)(handle, type, extent);
  return guarded(handle, [&] { *extent = static_cast<Extent>(file->extent_in_file(type)); });
}
constexpr auto* file_get_type_extent =
    &file_get_extent<&MpiFunctions::file_get_type_extent, MPI_Aint>;
#if MPI_VERSION >= 4
constexpr auto* file_get_type_extent_c =
    &file_get_extent<&MpiFunctions::file_get_type_extent_c, MPI_Count>;
#endif

int file_set_atomicity(MPI_File handle, int atomic) {
  const auto file = find(handle);
  if (is_alone(file)) {
    const int code = guarded(handle, [&] { file->meet(); });
    if (code != MPI_SUCCESS) return code;
  }
  const int result = library().file_set_atomicity(handle, atomic);
  if (file != nullptr && result == MPI_SUCCESS) file->set_atomicity(atomic != 0);
  return result;
}

int file_sync(MPI_File handle) {
  const auto file = find(handle);
  const int result = file == nullptr ? MPI_SUCCESS : guarded(handle, [&] { file->sync(); });
  if (is_alone(file)) return result;
  const int synced = library().file_sync(handle);  // what ranks wrote on their own
  return result != MPI_SUCCESS ? result : synced;
}

int file_seek(MPI_File handle, MPI_Offset offset, int whence) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_seek(handle, offset, whence);
  return guarded(handle, [&] { file->seek(offset, whence); });
}

int file_get_position(MPI_File handle, MPI_Offset* offset) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_get_position(handle, offset);
  *offset = file->position();
  return MPI_SUCCESS;
}

int file_get_byte_offset(MPI_File handle, MPI_Offset offset, MPI_Offset* bytes) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_get_byte_offset(handle, offset, bytes);
  return guarded(handle, [&] { *bytes = file->place_of(offset); });
}

int file_seek_shared(MPI_File handle, MPI_Offset offset, int whence) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_seek_shared(handle, offset, whence);
  return guarded(handle, [&] { file->seek_shared(offset, whence); });
}

int file_get_position_shared(MPI_File handle, MPI_Offset* offset) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_get_position_shared(handle, offset);
  *offset = file->shared_position();
  return MPI_SUCCESS;
}

int file_get_info(MPI_File handle, MPI_Info* info) {
  const int result = library().file_get_info(handle, info);
  const auto file = find(handle);
  if (file != nullptr && result == MPI_SUCCESS) file->add_hints(*info);
  return result;
}

int file_get_amode(MPI_File handle, int* mode) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_get_amode(handle, mode);
  *mode = file->mode();
  return MPI_SUCCESS;
}

int file_get_size(MPI_File handle, MPI_Offset* bytes) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_get_size(handle, bytes);
  return guarded(handle, [&] { *bytes = file->size_bytes(); });
}

int file_set_size(MPI_File handle, MPI_Offset bytes) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_set_size(handle, bytes);
  return guarded(handle, [&] { file->resize(bytes); });
}

int file_preallocate(MPI_File handle, MPI_Offset bytes) {
  const auto file = find(handle);
  if (!is_alone(file)) return library().file_preallocate(handle, bytes);
  return guarded(handle, [&] { file->grow(bytes); });
}

// ---- representations ---------------------------------------------------------------------------

template <class Count>
ConversionFunctions::Convert converting(int (*function)(void*, MPI_Datatype, Count, void*,
                                                        MPI_Offset, void*),
                                        void* state) {
  if (function == nullptr) return {};
  return [=](void* memory, MPI_Datatype type, MPI_Count count, void* file, MPI_Offset position) {
    return function(memory, type, static_cast<Count>(count), file, position, state);
  };
}

// Subroutines of Fortran get references, datatypes as integers, and return the code in the last.
template <class Count>
ConversionFunctions::Convert converting_in_fortran(void* subroutine, MPI_Aint state) {
  using InFortran = void(void*, MPI_Fint*, Count*, void*, MPI_Offset*, MPI_Aint*, MPI_Fint*);
  if (subroutine == nullptr) return {};
  return [subroutine, state](void* memory, MPI_Datatype type, MPI_Count count, void* file,
                             MPI_Offset position) {
    MPI_Fint handle = PMPI_Type_c2f(type);
    auto entries = static_cast<Count>(count);
    MPI_Aint given = state;
    MPI_Fint code = MPI_SUCCESS;
    reinterpret_cast<InFortran*>(subroutine)(memory, &handle, &entries, file, &position, &given,
                                             &code);
    return code;
  };
}

int extent_in_fortran(void* subroutine, MPI_Aint state, MPI_Datatype type, MPI_Aint* bytes) {
  using InFortran = void(MPI_Fint*, MPI_Aint*, MPI_Aint*, MPI_Fint*);
  MPI_Fint handle = PMPI_Type_c2f(type);
  MPI_Fint code = MPI_SUCCESS;
  reinterpret_cast<InFortran*>(subroutine)(&handle, bytes, &state, &code);
  return code;
}

// MPICH registers no name that has conversion functions, so that the library is not asked.
//
// MPICH's wrappers for Fortran, those of mpif.h, of mpi and of mpi_f08, pass subroutines as if they
// were C's functions, null for MPI_CONVERSION_FN_NULL, and the place of the state. Open MPI's pass
// functions in C, which call the subroutines.
template <auto Member, class Count, class Convert>
int register_datarep(const char* name, Convert* read, Convert* write,
                     MPI_Datarep_extent_function* extent, void* state, std::intptr_t in_fortran) {
  const std::size_t bytes = std::strlen(name);
  if (bytes == 0 || bytes >= MPI_MAX_DATAREP_STRING || extent == nullptr)
    return report(MPI_FILE_NULL, MPI_ERR_ARG);
  ConversionFunctions functions;
  bool is_new = false;
  const int code = guarded(MPI_FILE_NULL, [&] {
    functions.count_max = std::numeric_limits<Count>::max();
    if (in_fortran != 0 && library_passes_subroutines) {
      const auto address = [](auto* function) { return reinterpret_cast<void*>(function); };
      const MPI_Aint value = *static_cast<const MPI_Aint*>(state);
      functions.read = converting_in_fortran<Count>(address(read), value);
      functions.write = converting_in_fortran<Count>(address(write), value);
      functions.extent = [subroutine = address(extent), value](MPI_Datatype type,
                                                               MPI_Aint* bytes_of) {
        return extent_in_fortran(subroutine, value, type, bytes_of);
      };
    } else {
      functions.read = converting<Count>(read, state);
      functions.write = converting<Count>(write, state);
      functions.extent = [=](MPI_Datatype type, MPI_Aint* bytes_of) {
        return extent(type, bytes_of, state);
      };
    }
    is_new = register_representation(name, std::move(functions));
  });
  return code == MPI_SUCCESS && !is_new ? report(MPI_FILE_NULL, MPI_ERR_DUP_DATAREP) : code;
}

void take_representations(void** functions) {
  const auto take = [&]<class Function>(Function*& kept, CallIndex index, void* ours) {
    stand_in(kept, functions[static_cast<int>(index)], reinterpret_cast<Function*>(ours));
  };
  take(library().register_datarep, CallIndex::Register_datarep,
       reinterpret_cast<void*>(&register_datarep<&MpiFunctions::register_datarep, int,
                                                 MPI_Datarep_conversion_function>));
#if MPI_VERSION >= 4
  take(library().register_datarep_c, CallIndex::Register_datarep_c,
       reinterpret_cast<void*>(&register_datarep<&MpiFunctions::register_datarep_c, MPI_Count,
                                                 MPI_Datarep_conversion_function_c>));
#endif
}

// ---- transfers: what to do follows from a function's parameters --------------------------------

Arguments arguments(const void* buffer, MPI_Count count, MPI_Datatype type) {
  return {const_cast<void*>(buffer), count, type};
}

// Collective ones: at the position or an offset, and the first halves of split ones.
void all(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
         MPI_Datatype type, MPI_Status* status) {
  file.transfer_next(direction, arguments(buffer, count, type), status);
}
void all(OpenedFile& file, Direction direction, MPI_Offset offset, const void* buffer,
         MPI_Count count, MPI_Datatype type, MPI_Status* status) {
  file.transfer_at(direction, offset, arguments(buffer, count, type), status);
}
void all(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
         MPI_Datatype type) {
  file.begin_next(direction, arguments(buffer, count, type));
}
void all(OpenedFile& file, Direction direction, MPI_Offset offset, const void* buffer,
         MPI_Count count, MPI_Datatype type) {
  file.begin_at(direction, offset, arguments(buffer, count, type));
}

// In the order of the ranks, also the first halves.
void ordered(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
             MPI_Datatype type, MPI_Status* status) {
  file.transfer_in_order(direction, arguments(buffer, count, type), status);
}
void ordered(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
             MPI_Datatype type) {
  file.begin_in_order(direction, arguments(buffer, count, type));
}

// The second halves of all split ones.
void ended(OpenedFile& file, const void* /*buffer*/, MPI_Status* status) {
  file.end(status);
}

// Nonblocking collective ones: at the position or an offset.
void started(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
             MPI_Datatype type, MPI_Request* request) {
  file.start_next(direction, arguments(buffer, count, type), request);
}
void started(OpenedFile& file, Direction direction, MPI_Offset offset, const void* buffer,
             MPI_Count count, MPI_Datatype type, MPI_Request* request) {
  file.start_at(direction, offset, arguments(buffer, count, type), request);
}

// Those of one rank, blocking or not: at the position or an offset, and at the shared pointer.
template <class Result>
void single(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
            MPI_Datatype type, Result* result) {
  file.transfer_next_here(direction, arguments(buffer, count, type), result);
}
template <class Result>
void single(OpenedFile& file, Direction direction, MPI_Offset offset, const void* buffer,
            MPI_Count count, MPI_Datatype type, Result* result) {
  file.transfer_at_here(direction, offset, arguments(buffer, count, type), result);
}
template <class Result>
void shared(OpenedFile& file, Direction direction, const void* buffer, MPI_Count count,
            MPI_Datatype type, Result* result) {
  file.transfer_shared(direction, arguments(buffer, count, type), result);
}

enum class Kind { collective, started, ordered, single, shared };

// A function of these kinds, in the place of the library's function `Member`.
template <Kind kind, auto Member>
struct StandIn;

template <Kind kind, class... Rest, int (*MpiFunctions::*Member)(MPI_File, Rest...)>
struct StandIn<kind, Member> {
  static constexpr bool ends_split =
      (kind == Kind::collective || kind == Kind::ordered) && sizeof...(Rest) == 2;
  static constexpr bool at_offset =
      (std::is_same_v<Rest, MPI_Offset> || ...) &&
      ((std::is_same_v<Rest, MPI_Status*> || std::is_same_v<Rest, MPI_Request*>) || ...);
  // Data that the function may not change is written.
  static constexpr Direction direction =
      (std::is_same_v<Rest, const void*> || ...) ? Direction::write : Direction::read;

  static int call(MPI_File handle, Rest... rest) {
    const auto theirs = [&] { return (library().*Member)(handle, rest...); };
    const auto file = find(handle);
    if (file == nullptr || (kind != Kind::collective && !file->is_alone())) return theirs();
    if (const std::string why = why_theirs(*file); !why.empty()) {
      if (file->is_alone()) return guarded(handle, [&] { file->refuse(why); });
      if (!ends_split) file->count_left(why);
      return theirs();
    }
    int result = MPI_SUCCESS;
    const int code = guarded(handle, [&] {
      if constexpr (ends_split) {
        ended(*file, rest...);
      } else if constexpr (kind == Kind::collective) {
        try {
          all(*file, direction, rest...);
        } catch (const LeftToLibrary& left) {
          file->count_left(left.why);
          result = theirs();
        }
      } else if constexpr (kind == Kind::started) {
        started(*file, direction, rest...);
      } else if constexpr (kind == Kind::ordered) {
        ordered(*file, direction, rest...);
      } else if constexpr (kind == Kind::single) {
        single(*file, direction, rest...);
      } else {
        shared(*file, direction, rest...);
      }
    });
    return code != MPI_SUCCESS ? code : result;
  }

  // Empty: Ferry carries it out.
  static std::string why_theirs(const OpenedFile& file) {
    constexpr bool at_shared_pointer = kind == Kind::ordered || kind == Kind::shared;
    if (!at_shared_pointer && file.is_in_sequence()) return only_in_sequence;
    if constexpr (ends_split) {
      return file.is_split() ? "" : "the end of a transfer that was not begun";
    } else {
      return file.why_left(direction, at_offset);
    }
  }
};

}  // namespace
}  // namespace ferry::mpiio

extern "C" __attribute__((visibility("default"))) void ferry_mpiio_take(void** functions) {
  using namespace ferry::mpiio;
#define FERRY_MPIIO_OWN(name) (+file_##name)
#define FERRY_MPIIO_COLLECTIVE(name) &StandIn<Kind::collective, &MpiFunctions::file_##name>::call
#define FERRY_MPIIO_STARTED(name) &StandIn<Kind::started, &MpiFunctions::file_##name>::call
#define FERRY_MPIIO_ORDERED(name) &StandIn<Kind::ordered, &MpiFunctions::file_##name>::call
#define FERRY_MPIIO_SINGLE(name) &StandIn<Kind::single, &MpiFunctions::file_##name>::call
#define FERRY_MPIIO_SHARED(name) &StandIn<Kind::shared, &MpiFunctions::file_##name>::call
#define FERRY_MPIIO_TAKE(name, kind)                                                   \
  stand_in(library().file_##name, functions[static_cast<int>(CallIndex::file_##name)], \
           FERRY_MPIIO_##kind(name));
  FERRY_MPIIO_CALLS(FERRY_MPIIO_TAKE)
#if MPI_VERSION < 4
  // The library may be newer. Its own would not know the files that Ferry has alone.
#define FERRY_MPIIO_LEAVE_OUT(name, kind) \
  functions[static_cast<int>(CallIndex::file_##name)] = nullptr;
  FERRY_MPIIO_LARGE_CALLS(FERRY_MPIIO_LEAVE_OUT)
#endif
  take_representations(functions);
  take_tool_calls(functions);
}
