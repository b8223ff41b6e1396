// Opens and closes files of collective I/O.
#include <array>
#include <memory>
#include <string>

#include "bindings/c/growing_struct.hpp"
#include "bindings/c/mpi/collective_handles.hpp"

namespace ferry::c {
namespace {

using collective::File;
using collective::Method;
using collective::Options;

static_assert(FERRY_MPI_METHOD_AUTOMATIC == static_cast<int>(Method::automatic));
static_assert(FERRY_MPI_METHOD_INDEPENDENT == static_cast<int>(Method::independent));
static_assert(FERRY_MPI_METHOD_SERIAL == static_cast<int>(Method::serial));
static_assert(FERRY_MPI_METHOD_AGGREGATE == static_cast<int>(Method::aggregate));
static_assert(FERRY_MPI_METHOD_MPIIO == static_cast<int>(Method::mpiio));

constexpr ferry_mpi_options options_defaults = FERRY_MPI_OPTIONS_INIT;

Method method_of(std::uint32_t number, const char* name) {
  if (number > FERRY_MPI_METHOD_MPIIO) {
    refuse(std::string(name) + ": one of FERRY_MPI_METHOD_...");
  }
  return static_cast<Method>(number);
}

// One of three.
template <class Choice>
Choice choice_of(std::uint32_t number, Choice by_default, const char* name) {
  const std::array choices{by_default, Choice::enabled, Choice::disabled, Choice::automatic};
  if (number >= choices.size()) {
    refuse(std::string(name) + ": FERRY_MPI_ON, FERRY_MPI_OFF or FERRY_MPI_AUTOMATIC");
  }
  return choices.at(number);
}

bool switch_of(std::uint32_t number, bool by_default, const char* name) {
  if (number > FERRY_MPI_OFF) refuse(std::string(name) + ": FERRY_MPI_ON or FERRY_MPI_OFF");
  return number == FERRY_MPI_DEFAULT ? by_default : number == FERRY_MPI_ON;
}

Options options_of(const ferry_mpi_options& asked) {
  Options options;
  options.write_method = method_of(asked.write_method, "write_method");
  options.read_method = method_of(asked.read_method, "read_method");
  options.writers = bounded<int>(asked.writers, "writers");
  options.buffer_bytes = bounded(asked.buffer_bytes, "buffer_bytes");
  options.alignment_bytes = bounded(asked.alignment_bytes, "alignment_bytes");
  options.stripe_count = bounded<int>(asked.stripe_count, "stripe_count");
  options.files = bounded<int>(asked.files, "files");
  options.write_out = choice_of(asked.write_out, options.write_out, "write_out");
  options.read_sieving = choice_of(asked.read_sieving, options.read_sieving, "read_sieving");
  options.write_sieving = choice_of(asked.write_sieving, options.write_sieving, "write_sieving");
  options.node_merge = switch_of(asked.node_merge, options.node_merge, "node_merge");
  options.progress_thread =
      switch_of(asked.progress_thread, options.progress_thread, "progress_thread");
  options.writes_first = switch_of(asked.writes_first, options.writes_first, "writes_first");
  if (asked.quiet != 0) options.warn = [](const std::string&) {};
  return options;
}

void require_communicator(MPI_Comm communicator) {
  require_mpi();
  if (communicator == MPI_COMM_NULL) refuse("communicator is MPI_COMM_NULL");
}

}  // namespace

void require_mpi() {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised == 0) refuse("MPI is not initialised");
  if (finalised != 0) refuse("MPI is finalised");
}

}  // namespace ferry::c

using namespace ferry::c;

const char* ferry_mpi_error_text(void) {
  return error_text();
}

int ferry_mpi_open(ferry_mpi_file** file, MPI_Comm communicator, const char* path, int flags,
                   uint32_t mode, MPI_Info hints, const ferry_mpi_options* options) {
  return guarded([&] {
    if (file != nullptr) *file = nullptr;
    require_communicator(communicator);
    Options own;
    try {
      given(file, "file");
      given(path, "path");
      const ferry_mpi_options& asked = options != nullptr ? *options : options_defaults;
      own = options_of(read_struct(&asked, options_defaults, "options"));
    } catch (...) {
      own.refusal = refusal_of_exception().why;
    }
    own.mode = mode;
    own.hints = hints;
    auto opened =
        std::make_shared<File>(communicator, path != nullptr ? path : "(no path)", flags, own);
    *file = CollectiveFiles::mine().add(std::move(opened));
    return 0;
  });
}

int ferry_mpi_refuse_open(MPI_Comm communicator, const char* path, const char* why) {
  return guarded([&] {
    require_communicator(communicator);
    Options own;
    own.refusal = why != nullptr && *why != '\0' ? why : "refused";
    File(communicator, path != nullptr ? path : "(no path)", 0, own).close();
    return 0;
  });
}

int ferry_mpi_close(ferry_mpi_file* file) {
  return guarded([&] {
    require_mpi();
    CollectiveFiles::mine().take(file)->close();
    return 0;
  });
}
