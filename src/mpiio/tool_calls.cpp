// What a tool calls to see variables: the MPI library answers for its own, and Ferry for its own.
//
// T1  What concerns only the library goes there as it is, and so do wrong arguments, so that it
//     answers as ever.
// T2  For Ferry's variables a tool has to have initialised MPI_T. For MPICH it is enough that MPI
//     is, so for other tools the library is asked for its number first, which needs no more than
//     that. It is not asked for nothing: after MPI_Finalize MPICH 4.0 may abort.
// T3  The time stamp of the categories is the library's: Ferry's never change.
#include "mpiio/tool_calls.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mpiio/hint_defaults.hpp"
#include "mpiio/library.hpp"
#include "mpiio/opened_files.hpp"
#include "mpiio/tool_handles.hpp"
#include "mpiio/tool_indices.hpp"
#include "mpiio/tool_variables.hpp"

namespace ferry::mpiio {
namespace {

constexpr double ns_per_s = 1e9;

// A performance variable for one session: what was counted while it was started.
class Measurement {
 public:
  // Without a tally it stays 0: of a file that the MPI library has alone.
  Measurement(MPI_T_pvar_session session, const PerformanceVariable& variable,
              std::shared_ptr<const Tally> tally)
      : session_(session), variable_(variable), tally_(std::move(tally)) {}

  MPI_T_pvar_session session() const { return session_; }
  const PerformanceVariable& variable() const { return variable_; }
  void start() {
    if (is_started_) return;
    is_started_ = true;
    since_ = now();
  }
  void stop() {
    kept_ = value();
    is_started_ = false;
  }
  void set(std::uint64_t value) {
    kept_ = value;
    since_ = now();
  }
  // What it is, and 0 from then on.
  std::uint64_t take() {
    const std::uint64_t seen = now();
    const std::uint64_t taken = is_started_ ? kept_ + seen - since_ : kept_;
    kept_ = 0;
    since_ = seen;
    return taken;
  }
  std::uint64_t value() const {
    if (variable_.is_level()) return now();
    return is_started_ ? kept_ + now() - since_ : kept_;
  }

 private:
  std::uint64_t now() const { return tally_ != nullptr ? tally_->get(variable_.number) : 0; }

  MPI_T_pvar_session session_;
  const PerformanceVariable& variable_;
  std::shared_ptr<const Tally> tally_;
  bool is_started_ = false;
  std::uint64_t kept_ = 0;
  std::uint64_t since_ = 0;
};

struct Tools {
  std::mutex mutex;  // guards the next three
  std::set<MPI_T_pvar_session> sessions;
  ToolHandles<Measurement> measurements;
  ToolHandles<const ControlVariable*> controls;
  ToolIndices performance{static_cast<int>(performance_variables().size())};
  ToolIndices control{static_cast<int>(control_variables().size())};
  ToolIndices category{1};
  std::atomic<int> initialized = 0;  // by tools, so many times more than finalized
};

Tools& tools() {
  static Tools& all = *new Tools;  // a program may end while a thread calls
  return all;
}

// T2. Returns the library's error, or places Ferry's indices.
template <class GetNumber>
int begin(ToolIndices& indices, GetNumber* get_number) {
  const bool is_initialized = tools().initialized > 0;
  if (is_initialized && indices.have_begun()) return MPI_SUCCESS;
  int is_over = 0;
  PMPI_Finalized(&is_over);
  if (!is_initialized && is_over != 0) return MPI_T_ERR_NOT_INITIALIZED;
  int number = 0;
  const int code = get_number(&number);
  if (code == MPI_SUCCESS) indices.begin_behind(number);
  return code;
}

int begin_performance() {
  return begin(tools().performance, library().tool_pvar_get_num);
}
int begin_control() {
  return begin(tools().control, library().tool_cvar_get_num);
}
int begin_category() {
  return begin(tools().category, library().tool_category_get_num);
}

template <class Value, class Given>
void put(Value* place, const Given& value) {
  if (place != nullptr) *place = value;
}

// MPI 4.0, 15.3.3: as much of the text as there is space for, and what all of it needs.
void put_text(const std::string& text, char* buffer, int* bytes) {
  if (bytes == nullptr) return;
  if (buffer != nullptr && *bytes > 0) {
    const auto space = static_cast<std::size_t>(*bytes);
    buffer[text.copy(buffer, space - 1)] = '\0';
  }
  *bytes = static_cast<int>(text.size()) + 1;
}

// The place among Ferry's variables of this name; -1: none.
template <class Variables>
int place_of(const Variables& variables, const char* name) {
  if (name == nullptr) return -1;
  const auto found =
      std::ranges::find_if(variables, [&](const auto& variable) { return variable.name == name; });
  return found != variables.end() ? static_cast<int>(found - variables.begin()) : -1;
}

const PerformanceVariable& performance_at(int index) {
  const int own = tools().performance.own_of(index);
  return performance_variables()[static_cast<std::size_t>(own)];
}

const ControlVariable& control_at(int index) {
  return control_variables()[static_cast<std::size_t>(tools().control.own_of(index))];
}

// The library's number, and Ferry's behind it.
template <class GetNumber>
int count_all(ToolIndices& indices, GetNumber* get_number, int* number) {
  const int code = get_number(number);
  if (code != MPI_SUCCESS) return code;
  indices.begin_behind(*number);
  *number += indices.own();
  return MPI_SUCCESS;
}

// ---- performance variables ---------------------------------------------------------------------

int tool_pvar_get_num(int* number) {
  return count_all(tools().performance, library().tool_pvar_get_num, number);
}

int tool_pvar_get_info(int index, char* name, int* name_bytes, int* verbosity, int* variable_class,
                       MPI_Datatype* type, MPI_T_enum* names, char* description,
                       int* description_bytes, int* binding, int* readonly, int* continuous,
                       int* atomic) {
  if (const int code = begin_performance(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().performance;
  if (!indices.is_own(index)) {
    return library().tool_pvar_get_info(indices.theirs_of(index), name, name_bytes, verbosity,
                                        variable_class, type, names, description, description_bytes,
                                        binding, readonly, continuous, atomic);
  }
  const PerformanceVariable& variable = performance_at(index);
  put_text(variable.name, name, name_bytes);
  put_text(variable.description, description, description_bytes);
  put(verbosity, variable.verbosity);
  put(variable_class, variable.variable_class);
  put(type, variable.type());
  put(names, MPI_T_ENUM_NULL);
  put(binding, variable.binding());
  put(readonly, variable.is_level() ? 1 : 0);
  put(continuous, variable.is_level() ? 1 : 0);
  put(atomic, variable.is_level() ? 0 : 1);
  return MPI_SUCCESS;
}

int tool_pvar_get_index(const char* name, int variable_class, int* index) {
  if (const int code = begin_performance(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().performance;
  const int own = place_of(performance_variables(), name);
  if (own >= 0 && index != nullptr &&
      performance_variables()[static_cast<std::size_t>(own)].variable_class == variable_class) {
    *index = indices.index_of_own(own);
    return MPI_SUCCESS;
  }
  const int code = library().tool_pvar_get_index(name, variable_class, index);
  if (code == MPI_SUCCESS) *index = indices.index_of_theirs(*index);
  return code;
}

int tool_pvar_session_create(MPI_T_pvar_session* session) {
  const int code = library().tool_pvar_session_create(session);
  if (code != MPI_SUCCESS) return code;
  const std::lock_guard guard(tools().mutex);
  tools().sessions.insert(*session);
  return code;
}

int tool_pvar_session_free(MPI_T_pvar_session* session) {
  if (session != nullptr) {
    // Before another session can have its name.
    const std::lock_guard guard(tools().mutex);
    if (tools().sessions.erase(*session) != 0) {
      tools().measurements.remove_if(
          [&](const Measurement& one) { return one.session() == *session; });
    }
  }
  return library().tool_pvar_session_free(session);
}

int tool_pvar_handle_alloc(MPI_T_pvar_session session, int index, void* object,
                           MPI_T_pvar_handle* handle, int* count) {
  if (const int code = begin_performance(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().performance;
  if (!indices.is_own(index)) {
    return library().tool_pvar_handle_alloc(session, indices.theirs_of(index), object, handle,
                                            count);
  }
  if (handle == nullptr || count == nullptr) return MPI_T_ERR_INVALID;
  const PerformanceVariable& variable = performance_at(index);
  std::shared_ptr<const Tally> tally(std::shared_ptr<const Tally>(), &Tally::whole());
  if (variable.of_a_file) {
    const MPI_File* file = static_cast<const MPI_File*>(object);
    if (file == nullptr || *file == MPI_FILE_NULL) return MPI_T_ERR_INVALID_HANDLE;
    const auto opened = OpenedFiles::get().find(*file);
    tally = opened != nullptr ? opened->tally() : nullptr;
  }
  const std::lock_guard guard(tools().mutex);
  if (tools().sessions.count(session) == 0) return MPI_T_ERR_INVALID_SESSION;
  *handle = static_cast<MPI_T_pvar_handle>(
      tools().measurements.add(Measurement(session, variable, std::move(tally))));
  *count = 1;
  return MPI_SUCCESS;
}

bool is_own(MPI_T_pvar_handle handle) {
  if (handle == MPI_T_PVAR_ALL_HANDLES) return false;
  const std::lock_guard guard(tools().mutex);
  return tools().measurements.has(handle);
}

// Runs `body`, which returns an error, on one of Ferry's handles.
template <class Body>
int on_one(MPI_T_pvar_session session, MPI_T_pvar_handle handle, Body&& body) {
  if (const int code = begin_performance(); code != MPI_SUCCESS) return code;
  const std::lock_guard guard(tools().mutex);
  if (tools().sessions.count(session) == 0) return MPI_T_ERR_INVALID_SESSION;
  Measurement* measurement = tools().measurements.find(handle);
  if (measurement == nullptr || measurement->session() != session) return MPI_T_ERR_INVALID_HANDLE;
  return body(*measurement);
}

// Runs `body` on one handle of Ferry's or on all of a session, and `theirs` on the library's.
// Levels cannot take part: among all they are passed over, alone that is the error `refused`.
template <class Body, class Theirs>
int on_one_or_all(MPI_T_pvar_session session, MPI_T_pvar_handle handle, int refused, Body&& body,
                  Theirs* theirs) {
  if (is_own(handle)) {
    return on_one(session, handle, [&](Measurement& one) {
      if (one.variable().is_level()) return refused;
      body(one);
      return MPI_SUCCESS;
    });
  }
  const int code = theirs(session, handle);
  if (code != MPI_SUCCESS || handle != MPI_T_PVAR_ALL_HANDLES) return code;
  const std::lock_guard guard(tools().mutex);
  tools().measurements.for_each([&](Measurement& one) {
    if (one.session() == session && !one.variable().is_level()) body(one);
  });
  return code;
}

int tool_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle* handle) {
  if (handle == nullptr || !is_own(*handle))
    return library().tool_pvar_handle_free(session, handle);
  return on_one(session, *handle, [&](Measurement& /*one*/) {
    tools().measurements.remove(*handle);
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
  });
}

int tool_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return on_one_or_all(
      session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, [](Measurement& one) { one.start(); },
      library().tool_pvar_start);
}

int tool_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return on_one_or_all(
      session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, [](Measurement& one) { one.stop(); },
      library().tool_pvar_stop);
}

int tool_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return on_one_or_all(
      session, handle, MPI_T_ERR_PVAR_NO_WRITE, [](Measurement& one) { one.set(0); },
      library().tool_pvar_reset);
}

void put_value(const PerformanceVariable& variable, std::uint64_t value, void* buffer) {
  if (variable.is_time()) {
    *static_cast<double*>(buffer) = static_cast<double>(value) / ns_per_s;
  } else {
    *static_cast<unsigned long long*>(buffer) = value;
  }
}

int tool_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buffer) {
  if (!is_own(handle)) return library().tool_pvar_read(session, handle, buffer);
  return on_one(session, handle, [&](Measurement& one) {
    if (buffer == nullptr) return MPI_T_ERR_INVALID;
    put_value(one.variable(), one.value(), buffer);
    return MPI_SUCCESS;
  });
}

int tool_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buffer) {
  if (!is_own(handle)) return library().tool_pvar_write(session, handle, buffer);
  return on_one(session, handle, [&](Measurement& one) {
    if (one.variable().is_level()) return MPI_T_ERR_PVAR_NO_WRITE;
    if (buffer == nullptr) return MPI_T_ERR_INVALID;
    if (!one.variable().is_time()) {
      one.set(*static_cast<const unsigned long long*>(buffer));
      return MPI_SUCCESS;
    }
    const double ns = *static_cast<const double*>(buffer) * ns_per_s;
    constexpr double ns_max = 9e18;
    if (!(ns >= 0 && ns <= ns_max)) return MPI_T_ERR_INVALID;
    one.set(static_cast<std::uint64_t>(std::llround(ns)));
    return MPI_SUCCESS;
  });
}

int tool_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buffer) {
  if (!is_own(handle)) return library().tool_pvar_readreset(session, handle, buffer);
  return on_one(session, handle, [&](Measurement& one) {
    if (one.variable().is_level()) return MPI_T_ERR_PVAR_NO_WRITE;
    if (buffer == nullptr) return MPI_T_ERR_INVALID;
    put_value(one.variable(), one.take(), buffer);
    return MPI_SUCCESS;
  });
}

// ---- control variables -------------------------------------------------------------------------

int tool_cvar_get_num(int* number) {
  return count_all(tools().control, library().tool_cvar_get_num, number);
}

int tool_cvar_get_info(int index, char* name, int* name_bytes, int* verbosity, MPI_Datatype* type,
                       MPI_T_enum* names, char* description, int* description_bytes, int* binding,
                       int* scope) {
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().control;
  if (!indices.is_own(index)) {
    return library().tool_cvar_get_info(indices.theirs_of(index), name, name_bytes, verbosity, type,
                                        names, description, description_bytes, binding, scope);
  }
  const ControlVariable& variable = control_at(index);
  put_text(variable.name, name, name_bytes);
  put_text(variable.description, description, description_bytes);
  put(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
  put(type, MPI_CHAR);
  put(names, MPI_T_ENUM_NULL);
  put(binding, MPI_T_BIND_NO_OBJECT);
  put(scope, MPI_T_SCOPE_GROUP_EQ);
  return MPI_SUCCESS;
}

int tool_cvar_get_index(const char* name, int* index) {
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().control;
  const int own = place_of(control_variables(), name);
  if (own >= 0 && index != nullptr) {
    *index = indices.index_of_own(own);
    return MPI_SUCCESS;
  }
  const int code = library().tool_cvar_get_index(name, index);
  if (code == MPI_SUCCESS) *index = indices.index_of_theirs(*index);
  return code;
}

int tool_cvar_handle_alloc(int index, void* object, MPI_T_cvar_handle* handle, int* count) {
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().control;
  if (!indices.is_own(index)) {
    return library().tool_cvar_handle_alloc(indices.theirs_of(index), object, handle, count);
  }
  if (handle == nullptr || count == nullptr) return MPI_T_ERR_INVALID;
  const std::lock_guard guard(tools().mutex);
  *handle = static_cast<MPI_T_cvar_handle>(tools().controls.add(&control_at(index)));
  *count = control_bytes;
  return MPI_SUCCESS;
}

bool is_own(MPI_T_cvar_handle handle) {
  const std::lock_guard guard(tools().mutex);
  return tools().controls.has(handle);
}

// Null: it was freed.
const ControlVariable* control_of(MPI_T_cvar_handle handle) {
  const std::lock_guard guard(tools().mutex);
  const auto* found = tools().controls.find(handle);
  return found != nullptr ? *found : nullptr;
}

int tool_cvar_handle_free(MPI_T_cvar_handle* handle) {
  if (handle == nullptr || !is_own(*handle)) return library().tool_cvar_handle_free(handle);
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const std::lock_guard guard(tools().mutex);
  if (tools().controls.find(*handle) == nullptr) return MPI_T_ERR_INVALID_HANDLE;
  tools().controls.remove(*handle);
  *handle = MPI_T_CVAR_HANDLE_NULL;
  return MPI_SUCCESS;
}

int tool_cvar_read(MPI_T_cvar_handle handle, void* buffer) {
  if (!is_own(handle)) return library().tool_cvar_read(handle, buffer);
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const ControlVariable* variable = control_of(handle);
  if (variable == nullptr) return MPI_T_ERR_INVALID_HANDLE;
  if (buffer == nullptr) return MPI_T_ERR_INVALID;
  int bytes = control_bytes;
  put_text(hint_default(variable->hint), static_cast<char*>(buffer), &bytes);
  return MPI_SUCCESS;
}

int tool_cvar_write(MPI_T_cvar_handle handle, const void* buffer) {
  if (!is_own(handle)) return library().tool_cvar_write(handle, buffer);
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const ControlVariable* variable = control_of(handle);
  if (variable == nullptr) return MPI_T_ERR_INVALID_HANDLE;
  if (buffer == nullptr) return MPI_T_ERR_INVALID;
  const char* text = static_cast<const char*>(buffer);
  const std::string value(text, strnlen(text, control_bytes));
  return set_hint_default(variable->hint, value) ? MPI_SUCCESS : MPI_T_ERR_INVALID;
}

// ---- the category ------------------------------------------------------------------------------

int tool_category_get_num(int* number) {
  return count_all(tools().category, library().tool_category_get_num, number);
}

int tool_category_get_info(int index, char* name, int* name_bytes, char* description,
                           int* description_bytes, int* controls, int* performances,
                           int* categories) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().category;
  if (!indices.is_own(index)) {
    return library().tool_category_get_info(indices.theirs_of(index), name, name_bytes, description,
                                            description_bytes, controls, performances, categories);
  }
  put_text(category_name, name, name_bytes);
  put_text(category_description, description, description_bytes);
  put(controls, tools().control.own());
  put(performances, tools().performance.own());
  put(categories, 0);
  return MPI_SUCCESS;
}

int tool_category_get_index(const char* name, int* index) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().category;
  if (name != nullptr && index != nullptr && std::strcmp(name, category_name) == 0) {
    *index = indices.index_of_own(0);
    return MPI_SUCCESS;
  }
  const int code = library().tool_category_get_index(name, index);
  if (code == MPI_SUCCESS) *index = indices.index_of_theirs(*index);
  return code;
}

// What is in a category, by its indices: `members` says which of Ferry's are in Ferry's.
template <class List>
int list(int index, int length, int* found, List* list_theirs, const ToolIndices& members,
         int own_members) {
  const ToolIndices& indices = tools().category;
  if (indices.is_own(index)) {
    if (length > 0 && found == nullptr) return MPI_T_ERR_INVALID;
    for (int i = 0; i < std::min(length, own_members); ++i)
      found[i] = members.index_of_own(i);
    return MPI_SUCCESS;
  }
  if (length <= 0 || found == nullptr) return list_theirs(indices.theirs_of(index), length, found);
  // The library fills in what it has, which may be less.
  std::vector<int> theirs(static_cast<std::size_t>(length), -1);
  const int code = list_theirs(indices.theirs_of(index), length, theirs.data());
  if (code != MPI_SUCCESS) return code;
  for (std::size_t i = 0; i < theirs.size() && theirs[i] >= 0; ++i)
    found[i] = members.index_of_theirs(theirs[i]);
  return code;
}

int tool_category_get_cvars(int index, int length, int* found) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  if (const int code = begin_control(); code != MPI_SUCCESS) return code;
  const ToolIndices& members = tools().control;
  return list(index, length, found, library().tool_category_get_cvars, members, members.own());
}

int tool_category_get_pvars(int index, int length, int* found) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  if (const int code = begin_performance(); code != MPI_SUCCESS) return code;
  const ToolIndices& members = tools().performance;
  return list(index, length, found, library().tool_category_get_pvars, members, members.own());
}

int tool_category_get_categories(int index, int length, int* found) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  return list(index, length, found, library().tool_category_get_categories, tools().category, 0);
}

#if MPI_VERSION >= 4
// Ferry has no events, and those of the library keep their indices.
int tool_category_get_num_events(int index, int* number) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().category;
  if (!indices.is_own(index)) {
    return library().tool_category_get_num_events(indices.theirs_of(index), number);
  }
  put(number, 0);
  return MPI_SUCCESS;
}

int tool_category_get_events(int index, int length, int* found) {
  if (const int code = begin_category(); code != MPI_SUCCESS) return code;
  const ToolIndices& indices = tools().category;
  if (indices.is_own(index)) return MPI_SUCCESS;
  return library().tool_category_get_events(indices.theirs_of(index), length, found);
}
#endif

int tool_init_thread(int required, int* provided) {
  const int code = library().tool_init_thread(required, provided);
  if (code == MPI_SUCCESS) ++tools().initialized;
  return code;
}

// With the last of several, what tools have left is gone.
int tool_finalize() {
  const int code = library().tool_finalize();
  if (code != MPI_SUCCESS || --tools().initialized > 0) return code;
  tools().initialized = 0;
  const std::lock_guard guard(tools().mutex);
  tools().sessions.clear();
  tools().measurements.remove_if([](const Measurement&) { return true; });
  tools().controls.remove_if([](const ControlVariable*) { return true; });
  return code;
}

}  // namespace

void take_tool_calls(void** functions) {
#define FERRY_MPIIO_TAKE_TOOL(name, length)                                            \
  stand_in(library().tool_##name, functions[static_cast<int>(CallIndex::tool_##name)], \
           &tool_##name);
  FERRY_MPIIO_TOOL_CALLS(FERRY_MPIIO_TAKE_TOOL)
#undef FERRY_MPIIO_TAKE_TOOL
}

}  // namespace ferry::mpiio
