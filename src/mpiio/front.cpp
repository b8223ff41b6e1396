// libferry_mpiio.so, for LD_PRELOAD: the names of MPI-IO, and of the interface by which tools list
// variables (MPI_T), in front of the MPI library's own.
//
// It must load into any program, also one without MPI (mpiexec, a shell), so it needs nothing but
// the C library. A program's first call of these loads libferry_mpiio_calls.so, which lies beside
// it and does the work. If that cannot be, the calls go to the program's MPI library, and one line
// says why.
//
// The functions pass on whatever they are given as six machine words, or thirteen: none has more
// parameters, and all are integers and pointers. So they suit any MPI library, whatever its handles
// are. Those with large counts suit also libraries that have none: a count is a word, too.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include "mpiio/calls.hpp"

namespace {

using ferry::mpiio::call_count;
using ferry::mpiio::CallIndex;
using Word = std::intptr_t;

constexpr const char* names[] = {
#define FERRY_MPIIO_NAME(name, kind) "PMPI_File_" #name,
    FERRY_MPIIO_SMALL_CALLS(FERRY_MPIIO_NAME) FERRY_MPIIO_LARGE_CALLS(FERRY_MPIIO_NAME)
#undef FERRY_MPIIO_NAME
#define FERRY_MPIIO_NAME(name, length) "PMPI_T_" #name,
        FERRY_MPIIO_BASIC_TOOL_CALLS(FERRY_MPIIO_NAME) FERRY_MPIIO_EVENT_CALLS(FERRY_MPIIO_NAME)
#undef FERRY_MPIIO_NAME
#define FERRY_MPIIO_NAME(name) "PMPI_" #name,
            FERRY_MPIIO_REPRESENTATION_CALLS(FERRY_MPIIO_NAME)
                FERRY_MPIIO_LARGE_REPRESENTATION_CALLS(FERRY_MPIIO_NAME)
#undef FERRY_MPIIO_NAME
};
constexpr const char* calls_name = "libferry_mpiio_calls.so";

// Written once, under pthread_once.
void* functions[call_count];
// The parameter with the count, of functions with large counts that one with small counts stands
// for; else 0.
int small_count[call_count];
pthread_once_t once = PTHREAD_ONCE_INIT;
// Null until the program has called MPI-IO: before, it can have no code of Ferry's.
std::atomic<ferry::mpiio::TextOf*> text_of{nullptr};
std::atomic<ferry::mpiio::Look*> look{nullptr};

// Returns the path of this library.
const char* own_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&own_path), &info) != 0 ? info.dli_fname : "";
}

void say(const char* what, const char* why) {
  std::fprintf(stderr, "ferry: %s%s; the MPI library does all MPI-IO itself\n", what, why);
}

// A loaded library that has MPI-IO, though not in the scope where symbols are looked up: a module
// of Python's may have loaded it for itself. What Ferry loads finds its names from then on.
int find_mpi(dl_phdr_info* object, std::size_t /*bytes*/, void* found) {
  if (object->dlpi_name == nullptr || std::strstr(object->dlpi_name, "libmp") == nullptr) return 0;
  constexpr int as_it_is = RTLD_LAZY | RTLD_NOLOAD;
  void* library = dlopen(object->dlpi_name, as_it_is);
  if (library == nullptr) return 0;
  void* open = dlsym(library, names[0]);
  Dl_info info{};
  if (open == nullptr || dladdr(open, &info) == 0 || std::strcmp(info.dli_fname, own_path()) == 0) {
    dlclose(library);
    return 0;
  }
  dlopen(object->dlpi_name, as_it_is | RTLD_GLOBAL);
  *static_cast<void**>(found) = library;
  return 1;
}

#ifdef FERRY_MPI_LIBRARY_NAME

constexpr const char* why_not_ours =
    "this program's MPI library is not " FERRY_MPI_LIBRARY_NAME ", which Ferry was built for";

// The MPI library that Ferry was built for; null where the program has another.
void* expected_library() {
  return dlopen(FERRY_MPI_LIBRARY_NAME, RTLD_LAZY | RTLD_NOLOAD);
}

// The folder of what Ferry has for the program's MPI library, beside this one; null: nothing.
const char* folder_for(void* /*library*/) {
  return expected_library() != nullptr ? "" : nullptr;
}

#else  // in a wheel

constexpr const char* why_not_ours =
    "this program's MPI library has neither MPICH's interface nor Open MPI's";

void* expected_library() {
  return nullptr;  // any
}

// python/ferry/mpi_modules.py chooses alike.
const char* folder_for(void* library) {
  // A library with the interface that MPI 5 defines.
  using AbiVersion = int(int*, int*);
  auto* const abi_version = reinterpret_cast<AbiVersion*>(dlsym(library, "MPI_Abi_get_version"));
  int major = -1;
  int minor = -1;
  if (abi_version != nullptr) abi_version(&major, &minor);
  if (major > 0) return nullptr;
  if (dlsym(library, "ompi_mpi_comm_world") != nullptr) return "openmpi/";
  using LibraryVersion = int(char*, int*);
  auto* const library_version =
      reinterpret_cast<LibraryVersion*>(dlsym(library, "MPI_Get_library_version"));
  static char version[8192];  // MPI_MAX_LIBRARY_VERSION_STRING is at most that
  int bytes = 0;
  if (library_version == nullptr || library_version(version, &bytes) != 0) return nullptr;
  for (const char* name : {"MPICH", "MVAPICH", "Intel(R) MPI", "ParaStation MPI"})
    if (std::strstr(version, name) != nullptr) return "mpich/";
  return nullptr;
}

#endif

// The program's, for dlsym().
void* find_library() {
  void* library = expected_library();
  if (library == nullptr && dlsym(RTLD_NEXT, names[0]) == nullptr) {
    dl_iterate_phdr(find_mpi, &library);
  }
  return library != nullptr ? library : RTLD_NEXT;
}

// Fills the table with the MPI library's functions.
void find_functions(void* library) {
  for (int i = 0; i < call_count; ++i)
    functions[i] = dlsym(library, names[i]);
  if (functions[0] != nullptr) return;
  std::fprintf(stderr, "ferry: a call of MPI-IO, but no MPI library is loaded that has it\n");
  std::abort();
}

// Has Ferry's functions put into the table.
void take(void* library) {
  const char* folder = folder_for(library);
  if (folder == nullptr) {
    say(why_not_ours, "");
    return;
  }
  char path[4096];
  const char* own = own_path();
  const char* slash = std::strrchr(own, '/');
  const int bytes = slash != nullptr ? static_cast<int>(slash - own) + 1 : 0;
  std::snprintf(path, sizeof path, "%.*s%s%s", bytes, own, folder, calls_name);
  void* calls = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* take = calls != nullptr ? dlsym(calls, "ferry_mpiio_take") : nullptr;
  if (take == nullptr) {
    const char* why = dlerror();
    say("", why != nullptr ? why : path);
    return;
  }
  text_of = reinterpret_cast<ferry::mpiio::TextOf*>(dlsym(calls, "ferry_mpiio_text"));
  look = reinterpret_cast<ferry::mpiio::Look*>(dlsym(calls, "ferry_mpiio_look"));
  reinterpret_cast<ferry::mpiio::Take*>(take)(functions);
}

// Functions for events, of libraries that have none. The only pointer that they write to is to
// their number; their list is empty.
Word no_events(Word /*category*/, Word number) {
  *reinterpret_cast<int*>(number) = 0;
  return 0;  // MPI_SUCCESS
}
Word list_no_events() {
  return 0;
}

// Puts functions for MPI 4 where the table has none.
void fill_gaps() {
  constexpr int first = static_cast<int>(CallIndex::file_get_type_extent_c);
  constexpr int end = static_cast<int>(CallIndex::tool_init_thread);
  for (int large = first; large < end; ++large) {
    if (functions[large] != nullptr) continue;
    for (int small = 0; small < first; ++small) {
      const std::size_t bytes = std::strlen(names[small]);
      if (std::strncmp(names[large], names[small], bytes) != 0) continue;
      if (std::strcmp(names[large] + bytes, "_c") != 0) continue;
      functions[large] = functions[small];
      if (large == first) continue;  // has no count
      small_count[large] = std::strstr(names[large], "_at") != nullptr ? 3 : 2;
    }
  }
  void*& number = functions[static_cast<int>(CallIndex::tool_category_get_num_events)];
  if (number == nullptr) number = reinterpret_cast<void*>(&no_events);
  void*& list = functions[static_cast<int>(CallIndex::tool_category_get_events)];
  if (list == nullptr) list = reinterpret_cast<void*>(&list_no_events);
}

void prepare() {
  void* library = find_library();
  find_functions(library);
  take(library);
  fill_gaps();
}

// A function of the library that is no function of MPI-IO.
void* other_function(const char* name) {
  void* const function = dlsym(find_library(), name);
  if (function != nullptr) return function;
  std::fprintf(stderr, "ferry: the MPI library has no %s\n", name);
  std::abort();
}

// MPI_Request_get_status, in which MPICH 4.0 does not ask whether generalised requests are done.
int get_status(Word request, int* is_done, void* status) {
  if (const auto looks = look.load(); looks != nullptr) looks();
  static void* const function = other_function("PMPI_Request_get_status");
  return reinterpret_cast<int (*)(Word, int*, void*)>(function)(request, is_done, status);
}

// MPI_Error_string. The buffer has MPI_MAX_ERROR_STRING bytes, which no text of Ferry's exceeds.
int write_text(int code, char* buffer, int* bytes) {
  const auto text = text_of.load();
  if (const char* own = text != nullptr ? text(code) : nullptr) {
    *bytes = static_cast<int>(std::strlen(own));
    std::memcpy(buffer, own, static_cast<std::size_t>(*bytes) + 1);
    return 0;  // MPI_SUCCESS
  }
  static void* const function = other_function("PMPI_Error_string");
  return reinterpret_cast<int (*)(int, char*, int*)>(function)(code, buffer, bytes);
}

// Whether all ranks of the file take part in the function and wait for one another, in it or later.
bool waits_for_all(const char* name) {
  return std::strstr(name, "_all_") != nullptr || std::strstr(name, "_ordered_") != nullptr;
}

// Of such a function that only begins something, which has begun with nothing because its count is
// too large: waits for its end. The caller gets an error, and will not do so.
void end_with_nothing(const char* name, const Word* given, int place) {
  alignas(16) char status[512];  // in no library are they larger
  const auto status_word = reinterpret_cast<Word>(&status);
  if (std::strstr(name, "File_i") != nullptr) {
    if (void* wait = dlsym(find_library(), "PMPI_Wait"); wait != nullptr)
      // The request stands behind the count and the type.
      reinterpret_cast<int (*)(Word, Word)>(wait)(given[place + 2], status_word);
    return;
  }
  const char* const begin = std::strstr(name, "_begin_c");
  if (begin == nullptr) return;
  const auto bytes = static_cast<std::size_t>(begin - name);
  for (int end = 0; end < call_count; ++end) {
    if (std::strncmp(names[end], name, bytes) != 0) continue;
    if (std::strcmp(names[end] + bytes, "_end") != 0 || functions[end] == nullptr) continue;
    reinterpret_cast<int (*)(Word, Word, Word)>(functions[end])(given[0], given[place - 1],
                                                                status_word);
  }
}

template <class... Words>
Word call(CallIndex index, Words... words) {
  pthread_once(&once, prepare);
  const int number = static_cast<int>(index);
  void* function = functions[number];
  if (function == nullptr) {
    std::fprintf(stderr, "ferry: the MPI library has no %s\n", names[number]);
    std::abort();
  }
  Word given[] = {words...};
  const auto pass = [&]<std::size_t... Places>(std::index_sequence<Places...>) {
    return reinterpret_cast<Word (*)(Words...)>(function)(given[Places]...);
  };
  const int place = small_count[number];
  const bool fits = place == 0 || given[place] == static_cast<int>(given[place]);
  if (!fits) given[place] = 0;
  if (!fits && !waits_for_all(names[number])) return 2;
  const Word code = pass(std::make_index_sequence<sizeof...(Words)>());
  if (!fits && static_cast<int>(code) == 0) end_with_nothing(names[number], given, place);
  return fits ? code : 2;  // MPI_ERR_COUNT of MPICH and Open MPI
}

// Whether the code at this address is an MPI library's for Fortran, by the library's name.
bool is_for_fortran(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return false;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const name = slash == nullptr ? info.dli_fname : slash + 1;
  if (std::strncmp(name, "lib", 3) != 0) return false;
  for (const char* part : {"fort", "mpifh", "usempi", "mpi_mpif"})
    if (std::strstr(name, part) != nullptr) return true;
  return false;
}

}  // namespace

// The names with "P" as well: tools that were preloaded earlier (Darshan) call those, and so do the
// Fortran functions of some MPI libraries.
#define FERRY_MPIIO_EXPORT_SHORT(symbol, index)                                                 \
  extern "C" __attribute__((visibility("default"))) Word symbol(Word a, Word b, Word c, Word d, \
                                                                Word e, Word f) {               \
    return call(CallIndex::index, a, b, c, d, e, f);                                            \
  }
#define FERRY_MPIIO_EXPORT_LONG(symbol, index)                                                \
  extern "C" __attribute__((visibility("default"))) Word symbol(                              \
      Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k, \
      Word l, Word m) {                                                                       \
    return call(CallIndex::index, a, b, c, d, e, f, g, h, i, j, k, l, m);                     \
  }
#define FERRY_MPIIO_DEFINE(name, kind)                   \
  FERRY_MPIIO_EXPORT_SHORT(MPI_File_##name, file_##name) \
  FERRY_MPIIO_EXPORT_SHORT(PMPI_File_##name, file_##name)
FERRY_MPIIO_SMALL_CALLS(FERRY_MPIIO_DEFINE)
FERRY_MPIIO_LARGE_CALLS(FERRY_MPIIO_DEFINE)
#define FERRY_MPIIO_DEFINE_TOOL(name, length)            \
  FERRY_MPIIO_EXPORT_##length(MPI_T_##name, tool_##name) \
      FERRY_MPIIO_EXPORT_##length(PMPI_T_##name, tool_##name)
FERRY_MPIIO_BASIC_TOOL_CALLS(FERRY_MPIIO_DEFINE_TOOL)
FERRY_MPIIO_EVENT_CALLS(FERRY_MPIIO_DEFINE_TOOL)

#define FERRY_MPIIO_EXPORT_REGISTER(symbol, index)                                              \
  extern "C" __attribute__((visibility("default"))) Word symbol(Word a, Word b, Word c, Word d, \
                                                                Word e) {                       \
    const bool in_fortran = is_for_fortran(__builtin_return_address(0));                        \
    return call(CallIndex::index, a, b, c, d, e, Word{in_fortran});                             \
  }
#define FERRY_MPIIO_DEFINE_REGISTER(name)       \
  FERRY_MPIIO_EXPORT_REGISTER(MPI_##name, name) \
  FERRY_MPIIO_EXPORT_REGISTER(PMPI_##name, name)
FERRY_MPIIO_REPRESENTATION_CALLS(FERRY_MPIIO_DEFINE_REGISTER)
FERRY_MPIIO_LARGE_REPRESENTATION_CALLS(FERRY_MPIIO_DEFINE_REGISTER)

#define FERRY_MPIIO_ERROR_STRING(symbol)                                               \
  extern "C" __attribute__((visibility("default"))) int symbol(int code, char* buffer, \
                                                               int* bytes) {           \
    return write_text(code, buffer, bytes);                                            \
  }
FERRY_MPIIO_ERROR_STRING(MPI_Error_string)
FERRY_MPIIO_ERROR_STRING(PMPI_Error_string)

#define FERRY_MPIIO_GET_STATUS(symbol)                                                     \
  extern "C" __attribute__((visibility("default"))) int symbol(Word request, int* is_done, \
                                                               void* status) {             \
    return get_status(request, is_done, status);                                           \
  }
FERRY_MPIIO_GET_STATUS(MPI_Request_get_status)
FERRY_MPIIO_GET_STATUS(PMPI_Request_get_status)
