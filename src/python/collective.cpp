// The extension module ferry._collective: collective::File for communicators of mpi4py, with the
// interpreter's lock released around everything that may wait. python/ferry/collective.py makes it
// comfortable. Communicators and datatypes come as the numbers that MPI_Comm_c2f gives them.
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <ferry/collective.hpp>

#include "python/buffers.hpp"

namespace ferry::python {
namespace {

using collective::Extent;
using collective::File;
using collective::Method;
using collective::Options;
using collective::Phases;
using collective::Statistics;
using collective::TypeMap;
using Unlocked = nb::gil_scoped_release;

// OSError finds its own subclass by the errno.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object raised =
        nb::steal(PyObject_CallFunction(PyExc_OSError, "is", error.code().value(), error.what()));
    if (raised.is_valid())
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
  }
}

Method to_method(const std::string& name) {
  for (const Method method :
       {Method::automatic, Method::independent, Method::serial, Method::aggregate, Method::mpiio})
    if (name == name_of(method)) return method;
  throw nb::value_error(
      "method is \"automatic\", \"independent\", \"serial\", \"aggregate\" or \"mpiio\"");
}

// Only while the file is opened.
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

std::unique_ptr<File> open(int communicator, const nb::bytes& path, int flags, unsigned mode,
                           const std::string& method, int writers, std::int64_t buffer_bytes,
                           const std::map<std::string, std::string>& hints) {
  const Hints info(hints);
  Options options;
  options.write_method = options.read_method = to_method(method);
  options.writers = writers;
  options.buffer_bytes = buffer_bytes;
  options.mode = mode;
  options.hints = info.info;
  options.warn = [](const std::string&) {};  // python/ferry/collective.py tells them
  const std::string name(path.c_str(), path.size());
  const Unlocked unlocked;
  return std::make_unique<File>(MPI_Comm_f2c(communicator), name, flags, options);
}

// Runs `transfer(span)` of the memory of `object`.
template <class Transfer>
std::int64_t with_memory(nb::handle object, bool writable, Transfer&& transfer) {
  const PinnedBuffer buffer(object, writable);
  const std::span<std::byte> memory(static_cast<std::byte*>(buffer.data()), buffer.bytes());
  const Unlocked unlocked;
  return transfer(memory);
}

nb::dict to_dict(const Phases& phases) {
  nb::dict dict;
  dict["plan_ns"] = phases.plan_ns;
  dict["exchange_ns"] = phases.exchange_ns;
  dict["pack_ns"] = phases.pack_ns;
  dict["file_io_ns"] = phases.file_io_ns;
  dict["sync_ns"] = phases.sync_ns;
  dict["wait_ns"] = phases.wait_ns;
  return dict;
}

nb::dict statistics_of(File& file) {
  Statistics statistics;
  {
    const Unlocked unlocked;
    statistics = file.statistics();
  }
  nb::dict counts;
  counts["messages"] = statistics.counts.messages;
  counts["message_bytes"] = statistics.counts.message_bytes;
  counts["shared_bytes"] = statistics.counts.shared_bytes;
  counts["storage_requests"] = statistics.counts.storage_requests;
  counts["storage_bytes"] = statistics.counts.storage_bytes;
  counts["storage_opens"] = statistics.counts.storage_opens;
  nb::dict dict;
  dict["mean"] = to_dict(statistics.mean);
  dict["maximum"] = to_dict(statistics.maximum);
  dict["counts"] = counts;
  dict["method"] = name_of(statistics.method);
  dict["reason"] = statistics.reason;
  dict["writers"] = statistics.writers;
  return dict;
}

void bind_type_map(nb::module_& module) {
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
}

void bind_file(nb::module_& module) {
  using Release = nb::call_guard<Unlocked>;
  nb::class_<File>(module, "File")
      .def(
          "set_view",
          [](File& self, std::int64_t displacement, const TypeMap& view, int order,
             int element_bytes) {
            self.set_view(displacement, view, {static_cast<ByteOrder>(order), element_bytes});
          },
          Release())
      .def("write_at_all",
           [](File& self, std::int64_t offset, nb::handle buffer) {
             return with_memory(buffer, false, [&](std::span<std::byte> memory) {
               return self.write_at_all(offset, memory);
             });
           })
      .def("read_at_all",
           [](File& self, std::int64_t offset, nb::handle buffer) {
             return with_memory(buffer, true, [&](std::span<std::byte> memory) {
               return self.read_at_all(offset, memory);
             });
           })
      .def("write_all",
           [](File& self, nb::handle buffer) {
             return with_memory(buffer, false, [&](std::span<std::byte> memory) {
               return self.write_all(memory);
             });
           })
      .def("read_all",
           [](File& self, nb::handle buffer) {
             return with_memory(buffer, true,
                                [&](std::span<std::byte> memory) { return self.read_all(memory); });
           })
      .def("write_at",
           [](File& self, std::int64_t offset, nb::handle buffer) {
             return with_memory(buffer, false, [&](std::span<std::byte> memory) {
               return self.write_at(offset, memory);
             });
           })
      .def("read_at",
           [](File& self, std::int64_t offset, nb::handle buffer) {
             return with_memory(buffer, true, [&](std::span<std::byte> memory) {
               return self.read_at(offset, memory);
             });
           })
      .def("sync", &File::sync, Release())
      .def("resize", &File::resize, Release())
      .def("size_bytes", &File::size_bytes, Release())
      .def("close", &File::close, Release())
      .def("statistics", &statistics_of)
      .def("warnings", &File::warnings)
      .def("writers", &File::writers);
}

}  // namespace

NB_MODULE(_collective, module) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate, nullptr);
  // Which MPI library this module is linked to, and whether that is initialised.
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
  bind_type_map(module);
  bind_file(module);
  module.def("open", &open);
}

}  // namespace ferry::python
