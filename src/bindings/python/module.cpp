// The extension module ferry._bulk: the engine and its files. Releases the interpreter's lock
// around everything that may wait. python/ferry wraps it.
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ferry/bulk.hpp>

#include "base/staging.hpp"
#include "bindings/python/buffers.hpp"
#include "bindings/python/interpreter_lock.hpp"
#include "bindings/python/os_error.hpp"
#include "bindings/python/tensors.hpp"
#include "bindings/python/transfers.hpp"
#include "bulk/scheduler.hpp"

namespace ferry::python {
namespace {

constexpr std::pair<const char*, bulk::Route> routes[] = {{"automatic", bulk::Route::automatic},
                                                          {"buffered", bulk::Route::buffered},
                                                          {"direct", bulk::Route::direct}};
constexpr std::pair<const char*, StorageEngine> storages[] = {
    {"automatic", StorageEngine::automatic},
    {"io_uring", StorageEngine::io_uring},
    {"threads", StorageEngine::threads}};

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const bulk::TransferError& error) {
    const bulk::Failure& first = error.failures().front();
    const std::string range = ", bytes " + std::to_string(first.offset) + " to " +
                              std::to_string(first.offset + first.bytes);
    raise_os_error(first.error_number, std::system_category().message(first.error_number) + range,
                   &first.path);
  } catch (const PathError& error) {
    const std::string why = error.why().empty() ? "" : " (" + error.why() + ")";
    raise_os_error(error.code().value(), error.code().message() + why, &error.path());
  } catch (const Error& error) {
    const std::string reason = error.reason();
    raise_os_error(error.code().value(), error.code().message(), &reason);
  }
}

nb::dict to_dict(const bulk::EngineOptions& options) {
  nb::dict dict;
  dict["workers"] = options.workers;
  dict["depth"] = options.depth;
  dict["task_bytes"] = options.task_bytes;
  for (const auto& [name, route] : routes)
    if (route == options.route) dict["route"] = name;
  return dict;
}

nb::dict to_dict(const bulk::EngineStatistics& statistics) {
  nb::dict dict;
  dict["transfers"] = statistics.transfers;
  dict["parts"] = statistics.parts;
  dict["failed_parts"] = statistics.failed_parts;
  dict["cancelled_transfers"] = statistics.cancelled_transfers;
  dict["bytes_read"] = statistics.bytes_read;
  dict["bytes_written"] = statistics.bytes_written;
  dict["copied_tasks"] = statistics.copied_tasks;
  dict["cached_tasks"] = statistics.cached_tasks;
  dict["direct_tasks"] = statistics.direct_tasks;
  dict["staged_tasks"] = statistics.staged_tasks;
  dict["gpu_tasks"] = statistics.gpu_tasks;
  dict["gpu_direct_tasks"] = statistics.gpu_direct_tasks;
  dict["gpu_direct_bytes"] = statistics.gpu_direct_bytes;
  dict["staging_bytes"] = statistics.staging_bytes;
  dict["pinned_bytes"] = statistics.pinned_bytes;
  dict["workers_started"] = statistics.workers_started;
  return dict;
}

nb::dict to_dict(const bulk::Explanation& explanation) {
  nb::dict dict;
  dict["route"] = explanation.route;
  dict["storage"] = explanation.storage;
  dict["storage_engine"] = explanation.storage_engine;
  dict["workers"] = explanation.workers;
  dict["depth"] = explanation.depth;
  dict["task_bytes"] = explanation.task_bytes;
  dict["file_bytes"] = explanation.file_bytes;
  dict["resident_bytes"] =
      explanation.residency_known ? nb::cast(explanation.resident_bytes) : nb::none();
  dict["reasons"] = explanation.reasons;
  return dict;
}

// Ctrl-C ends longer waits.
constexpr std::uint64_t uninterrupted_bytes_max = 32 << 20;

std::uint64_t transfer(const File& file, nb::handle object, nb::handle where, Direction direction) {
  const std::uint64_t offset = to_offset(where);
  const PinnedBuffer buffer(object, direction == Direction::read, true);
  bulk::ProgressFunction meanwhile;
  if (buffer.bytes() > uninterrupted_bytes_max)
    meanwhile = [](const bulk::Progress&) { check_signals(); };
  const LockRelease unlocked;
  return direction == Direction::write
             ? file->write_at(buffer.data(), buffer.bytes(), offset, meanwhile)
             : file->read_at(buffer.data(), buffer.bytes(), offset, meanwhile);
}

// Memory in huge pages, which direct I/O uses without staging.
struct AlignedMemory {
  explicit AlignedMemory(std::uint64_t size) : bytes(size), data(map_huge(size)) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~AlignedMemory() { unmap_huge(data, bytes); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  const std::uint64_t bytes;
  std::byte* const data;
};

ShownMemory memory_of(const AlignedMemory& memory) {
  return {memory.data, memory.bytes};
}

void make_engine(Engine* self, unsigned workers, unsigned depth, std::uint64_t task_bytes,
                 const std::string& route, const std::string& storage) {
  if (ending()) throw std::runtime_error("the interpreter is ending: no new engine");
  bulk::EngineOptions options;
  options.workers = workers;
  options.depth = depth;
  options.task_bytes = task_bytes;
  options.route = named(routes, route, "route is \"automatic\", \"buffered\" or \"direct\"");
  options.storage =
      named(storages, storage, "storage is \"automatic\", \"io_uring\" or \"threads\"");
  std::shared_ptr<bulk::Scheduler> scheduler = bulk::Scheduler::make(options);
  keep(scheduler);
  new (self) Engine(std::move(scheduler));
}

// A null byte would end the path and name another file.
std::string to_path(const nb::bytes& path) {
  std::string name(path.c_str(), path.size());
  if (name.find('\0') != std::string::npos) throw nb::value_error("embedded null byte");
  return name;
}

void make_file(File* self, const Engine& engine, const nb::bytes& path, int flags,
               std::uint32_t mode) {
  const std::string name = to_path(path);
  const LockRelease unlocked;
  new (self) File(*engine, name, flags, mode);
}

// In a child of fork().
File* file_of_parent(const Engine& engine, const File& parents) {
  const LockRelease unlocked;
  return new File(*engine, *parents);
}

// A method of the engine that takes a path.
template <class Result, class... More>
auto at_path(Result (bulk::Engine::*method)(const std::string&, More...) const) {
  return [method](const Engine& self, const nb::bytes& path, More... more) {
    const std::string name = to_path(path);
    const LockRelease unlocked;
    return ((*self).*method)(name, more...);
  };
}

nb::tuple to_tuple(const bulk::PathStatus& status) {
  return nb::make_tuple(status.size_bytes, status.modified_ns, status.mode);
}

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine")
      .def("__init__", &make_engine)
      .def("options", [](const Engine& self) { return to_dict(self->options()); })
      .def("statistics", [](const Engine& self) { return to_dict(self->statistics()); })
      .def("explain",
           [](const Engine& self, const nb::bytes& path) {
             return to_dict(at_path(&bulk::Engine::explain)(self, path));
           })
      .def("status",
           [](const Engine& self, const nb::bytes& path) {
             return to_tuple(at_path(&bulk::Engine::status)(self, path));
           })
      .def("unlink", at_path(&bulk::Engine::unlink))
      .def("rename",
           [](const Engine& self, const nb::bytes& from, const nb::bytes& to) {
             const std::string name = to_path(from);
             const std::string new_name = to_path(to);
             const LockRelease unlocked;
             self->rename(name, new_name);
           })
      .def("list",
           [](const Engine& self, const nb::bytes& path) {
             nb::list found;
             for (const bulk::PathEntry& entry : at_path (&bulk::Engine::list)(self, path))
               found.append(nb::make_tuple(nb::bytes(entry.name.data(), entry.name.size()),
                                           to_tuple(entry.status)));
             return found;
           })
      .def("make_directory", at_path(&bulk::Engine::make_directory))
      .def("remove_directory", at_path(&bulk::Engine::remove_directory))
      .def("shut_down",
           [](const Engine& self) {
             const LockRelease unlocked;
             self->shut_down();
           })
      .def("read_batch", [](const Engine& self,
                            nb::handle parts) { return run_batch(*self, parts, Direction::read); })
      .def("write_batch",
           [](const Engine& self, nb::handle parts) {
             return run_batch(*self, parts, Direction::write);
           })
      .def("read_files", [](const Engine& self, const nb::list& paths) {
        std::vector<std::string> names;
        names.reserve(paths.size());
        for (const nb::handle path : paths)
          names.push_back(to_path(nb::cast<nb::bytes>(path)));
        return read_files(*self, names);
      });
}

void bind_file(nb::module_& module) {
  using Release = nb::call_guard<LockRelease>;
  nb::class_<File>(module, "File")
      .def("__init__", &make_file)
      .def_static("of_parent", &file_of_parent)
      .def("read_at",
           [](const File& self, nb::handle buffer, nb::handle offset) {
             return transfer(self, buffer, offset, Direction::read);
           })
      .def("write_at",
           [](const File& self, nb::handle buffer, nb::handle offset) {
             return transfer(self, buffer, offset, Direction::write);
           })
      .def("append",
           [](const File& self, nb::handle object) {
             const PinnedBuffer buffer(object, false);
             const LockRelease unlocked;
             return self->append(buffer.data(), buffer.bytes());
           })
      .def(
          "size", [](const File& self) { return self->size(); }, Release())
      .def(
          "truncate", [](const File& self, std::uint64_t bytes) { self->truncate(bytes); },
          Release())
      .def("descriptor", [](const File& self) { return self->descriptor(); })
      .def(
          "sync", [](const File& self) { self->sync(); }, Release())
      .def(
          "close", [](const File& self) { self->close(); }, Release());
}

}  // namespace
}  // namespace ferry::python

NB_MODULE(_bulk, module) {
  using namespace ferry::python;  // NOLINT: the body of this module
  nb::register_exception_translator(translate);
  nb::class_<AlignedMemory>(module, "AlignedMemory",
                            nb::type_slots(shows<AlignedMemory, memory_of>))
      .def(nb::init<std::uint64_t>());
  module.def("end", &end);
  // In a child of fork() the parent's transfers stay: the threads that would release them do not
  // exist. The same holds for daemon threads' objects when the interpreter ends.
  module.def("expect_leaks", [] { nb::set_leak_warnings(false); });
  bind_transfers(module);
  bind_tensors(module);
  bind_engine(module);
  bind_file(module);
  bind_gpu_runtime(module);
}
