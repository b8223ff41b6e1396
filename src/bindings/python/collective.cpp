// The extension module ferry._collective: collective::File for communicators of mpi4py. Releases
// the interpreter's lock around everything that may wait. python/ferry/collective.py wraps it.
// Communicators and datatypes are numbers from MPI_Comm_c2f.
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mpi.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <ferry/collective.hpp>

#include "bindings/python/buffers.hpp"
#include "bindings/python/os_error.hpp"

namespace ferry::python {
namespace {

using collective::Call;
using collective::Extent;
using collective::File;
using collective::Method;
using collective::Options;
using collective::TypeMap;
using Unlocked = nb::gil_scoped_release;

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise_os_error(error.code().value(), error.what());
  }
}

Method to_method(const std::string& name) {
  for (const Method method :
       {Method::automatic, Method::independent, Method::serial, Method::aggregate, Method::mpiio})
    if (name == name_of(method)) return method;
  throw nb::value_error(
      "method is \"automatic\", \"independent\", \"serial\", \"aggregate\" or \"mpiio\"");
}

// Only while opening.
struct Hints {
  explicit Hints(const std::map<std::string, std::string>& hints) {
    MPI_Info_create(&info);
    for (const auto& [name, value] : hints)
      MPI_Info_set(info, name.c_str(), value.c_str());
  }
  ~Hints() { MPI_Info_free(&info); }
  Hints(const Hints&) = delete;
  Hints& operator=(const Hints&) = delete;
  MPI_Info info = MPI_INFO_NULL;
};

// The settings of an open. Made before the ranks meet, because one rank's arguments may be wrong.
struct Opening {
  Opening(const nb::bytes& name, int open_flags, unsigned mode, const std::string& method,
          int writers, std::int64_t buffer_bytes, int files,
          std::map<std::string, std::string> info)
      : path(name.c_str(), name.size()), flags(open_flags), hints(std::move(info)) {
    options.write_method = options.read_method = to_method(method);
    options.writers = writers;
    options.buffer_bytes = buffer_bytes;
    options.files = files;
    options.mode = mode;
    options.warn = [](const std::string&) {};  // python/ferry/collective.py prints them
  }
  std::string path;
  int flags;
  std::map<std::string, std::string> hints;
  Options options;
};

std::unique_ptr<File> open(int communicator, const Opening& opening) {
  const Hints info(opening.hints);
  Options options = opening.options;
  options.hints = info.info;
  const Unlocked unlocked;
  return std::make_unique<File>(MPI_Comm_f2c(communicator), opening.path, opening.flags, options);
}

// Takes part in a collective call that fails on every rank, because of this rank's own error.
template <class Refuse>
void refuse_with(Refuse refuse) {
  const Unlocked unlocked;
  try {
    refuse();
  } catch (const Error&) {
  }
}

void refuse_open(int communicator, const std::string& why) {
  refuse_with([&] {
    Options options;
    options.refusal = why;
    File(MPI_Comm_f2c(communicator), "", 0, options).close();
  });
}

std::string text_of(const nb::python_error& error) {
  auto type = nb::cast<std::string>(error.type().attr("__name__"));
  const nb::str text(error.value());
  const char* const said = text.c_str();
  if (said != nullptr) return type + ": " + said;
  PyErr_Clear();  // no text to send
  return type;
}

enum class Waits : std::uint8_t { yes, no };

void refuse(File& file, Call call, Waits waits, const std::string& why) {
  refuse_with([&] {
    if (waits == Waits::yes) {
      file.refuse(call, why);
    } else {
      file.irefuse(call, why);
    }
  });
}

// The arguments of a collective call, converted by `prepare`. If that fails on this rank only, the
// others are notified, which would otherwise wait.
template <class Prepare>
auto prepared(File& file, Call call, Waits waits, Prepare prepare) {
  try {
    return prepare();
  } catch (const nb::python_error& error) {
    refuse(file, call, waits, text_of(error));
    throw;
  } catch (const std::exception& error) {
    refuse(file, call, waits, error.what());
    throw;
  }
}

std::int64_t to_number(nb::handle object, const char* name) {
  std::int64_t number = 0;
  if (!nb::try_cast(object, number)) {
    throw nb::type_error((std::string(name) + " is a number of bytes").c_str());
  }
  return number;
}

std::span<std::byte> span_of(const PinnedBuffer& buffer) {
  return {static_cast<std::byte*>(buffer.data()), buffer.bytes()};
}

// A transfer in flight with its memory. python/ferry/collective.py keeps it until it is done.
struct Pending {
  PinnedBuffer buffer;
  collective::Transfer transfer;
};

// The methods of File for Python: `reads` into the buffer, or writes from it.
template <bool reads>
using Bytes = std::span<std::conditional_t<reads, std::byte, const std::byte>>;

template <bool reads>
constexpr Call call_of = reads ? Call::read_all : Call::write_all;

struct Place {
  std::int64_t offset;
  PinnedBuffer buffer;
};

template <bool reads>
Place place_of(nb::handle offset, nb::handle object) {
  return {to_number(offset, "offset"), PinnedBuffer(object, reads, true)};
}

template <bool reads>
auto transfer_at(std::int64_t (File::*method)(std::int64_t, Bytes<reads>)) {
  return [method](File& self, nb::handle offset, nb::handle object) {
    const Place place =
        prepared(self, call_of<reads>, Waits::yes, [&] { return place_of<reads>(offset, object); });
    const Unlocked unlocked;
    return (self.*method)(place.offset, span_of(place.buffer));
  };
}

template <bool reads>
auto transfer_next(std::int64_t (File::*method)(Bytes<reads>)) {
  return [method](File& self, nb::handle object) {
    const PinnedBuffer buffer = prepared(self, call_of<reads>, Waits::yes,
                                         [&] { return PinnedBuffer(object, reads, true); });
    const Unlocked unlocked;
    return (self.*method)(span_of(buffer));
  };
}

// On this rank only.
template <bool reads>
auto transfer_here(std::int64_t (File::*method)(std::int64_t, Bytes<reads>)) {
  return [method](File& self, std::int64_t offset, nb::handle object) {
    const PinnedBuffer buffer(object, reads, true);
    const Unlocked unlocked;
    return (self.*method)(offset, span_of(buffer));
  };
}

template <bool reads>
auto start_at(collective::Transfer (File::*method)(std::int64_t, Bytes<reads>)) {
  return [method](File& self, nb::handle offset, nb::handle object) {
    Place place =
        prepared(self, call_of<reads>, Waits::no, [&] { return place_of<reads>(offset, object); });
    auto pending = std::make_unique<Pending>(Pending{std::move(place.buffer), {}});
    pending->transfer = (self.*method)(place.offset, span_of(pending->buffer));
    return pending;
  };
}

template <bool reads>
auto start_next(collective::Transfer (File::*method)(Bytes<reads>)) {
  return [method](File& self, nb::handle object) {
    auto pending = std::make_unique<Pending>(
        Pending{prepared(self, call_of<reads>, Waits::no,
                         [&] { return PinnedBuffer(object, reads, true); }),
                {}});
    pending->transfer = (self.*method)(span_of(pending->buffer));
    return pending;
  };
}

void resize(File& self, nb::handle size) {
  const std::int64_t bytes =
      prepared(self, Call::resize, Waits::yes, [&] { return to_number(size, "size"); });
  const Unlocked unlocked;
  self.resize(bytes);
}

// The arguments of set_view(); see Opening.
struct FileView {
  FileView(std::int64_t begin, const TypeMap& view, int order, int element_bytes)
      : displacement(begin),
        map(view),
        representation{static_cast<ByteOrder>(order), element_bytes} {}
  std::int64_t displacement;
  TypeMap map;
  collective::Representation representation;
};

std::map<std::string, std::string> hints_of(const File& file) {
  MPI_Info info = file.hints();
  int count = 0;
  MPI_Info_get_nkeys(info, &count);
  std::map<std::string, std::string> hints;
  for (int i = 0; i < count; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> name{};
    MPI_Info_get_nthkey(info, i, name.data());
    std::array<char, MPI_MAX_INFO_VAL + 1> value{};
    int found = 0;
    MPI_Info_get(info, name.data(), MPI_MAX_INFO_VAL, value.data(), &found);
    hints[name.data()] = value.data();
  }
  MPI_Info_free(&info);
  return hints;
}

void bind_arguments(nb::module_& module) {
  using Sizes = std::vector<std::int64_t>;
  nb::class_<TypeMap>(module, "TypeMap")
      .def(nb::init<>())
      .def_static("contiguous", &TypeMap::contiguous)
      .def_static("strided", &TypeMap::strided)
      .def_static("subarray",
                  [](const Sizes& sizes, const Sizes& subsizes, const Sizes& starts,
                     std::int64_t element_bytes) {
                    return TypeMap::subarray(sizes, subsizes, starts, element_bytes);
                  })
      .def_static("extents",
                  [](const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs,
                     std::int64_t period_bytes) {
                    std::vector<Extent> extents;
                    extents.reserve(pairs.size());
                    for (const auto& [offset, bytes] : pairs)
                      extents.push_back({offset, bytes});
                    return TypeMap::list(extents, period_bytes);
                  })
      .def_static("of_datatype",
                  [](int datatype) { return collective::typemap_of(MPI_Type_f2c(datatype)); })
      .def_prop_ro("data_bytes", &TypeMap::data_bytes)
      .def_prop_ro("period_bytes", &TypeMap::period_bytes);
  nb::class_<FileView>(module, "FileView").def(nb::init<std::int64_t, const TypeMap&, int, int>());
  nb::class_<Opening>(module, "Opening")
      .def(nb::init<const nb::bytes&, int, unsigned, const std::string&, int, std::int64_t, int,
                    std::map<std::string, std::string>>());
}

void bind_transfer(nb::module_& module) {
  using Release = nb::call_guard<Unlocked>;
  nb::class_<Pending>(module, "Transfer")
      .def(
          "wait", [](Pending& self) { return self.transfer.wait(); }, Release())
      .def(
          "test", [](Pending& self) { return self.transfer.test(); }, Release());
}

void bind_file(nb::module_& module) {
  using Release = nb::call_guard<Unlocked>;
  // Also takes None, which would otherwise be refused before the other ranks are notified.
  const auto any = nb::arg().none();
  nb::class_<File>(module, "File")
      .def(
          "set_view",
          [](File& self, const FileView& view) {
            self.set_view(view.displacement, view.map, view.representation);
          },
          Release())
      .def(
          "refuse_view",
          [](File& self, const std::string& why) { refuse(self, Call::set_view, Waits::yes, why); })
      .def("write_at_all", transfer_at<false>(&File::write_at_all), any, any)
      .def("read_at_all", transfer_at<true>(&File::read_at_all), any, any)
      .def("write_all", transfer_next<false>(&File::write_all), any)
      .def("read_all", transfer_next<true>(&File::read_all), any)
      .def("write_at", transfer_here<false>(&File::write_at))
      .def("read_at", transfer_here<true>(&File::read_at))
      .def("iwrite_at_all", start_at<false>(&File::iwrite_at_all), any, any)
      .def("iread_at_all", start_at<true>(&File::iread_at_all), any, any)
      .def("iwrite_all", start_next<false>(&File::iwrite_all), any)
      .def("iread_all", start_next<true>(&File::iread_all), any)
      .def("sync", &File::sync, Release())
      .def("resize", &resize, any)
      .def("size_bytes", &File::size_bytes, Release())
      .def("close", &File::close, Release())
      .def(
          "statistics", [](File& self) { return to_json(self.statistics()); }, Release())
      .def("hints", &hints_of)
      .def("warnings", &File::warnings)
      .def("writers", &File::writers)
      .def("path",
           [](const File& self) { return nb::bytes(self.path().data(), self.path().size()); });
}

}  // namespace

NB_MODULE(_collective, module) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate, nullptr);
  // Which MPI library this module links, and whether it is initialised.
  module.def("library_version", [] {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    text.resize(static_cast<std::size_t>(length));
    return text;
  });
  module.def("is_initialized", [] {
    int initialized = 0;
    MPI_Initialized(&initialized);
    return initialized != 0;
  });
  bind_arguments(module);
  bind_transfer(module);
  bind_file(module);
  module.def("open", &open);
  module.def("refuse_open", &refuse_open);
}

}  // namespace ferry::python
