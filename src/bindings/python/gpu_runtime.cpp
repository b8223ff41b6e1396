#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <ferry/gpu.hpp>

#include "bindings/python/buffers.hpp"
#include "bindings/python/interpreter_lock.hpp"
#include "bindings/python/os_error.hpp"
#include "bindings/python/tensors.hpp"

namespace ferry::python {
namespace {

// The runtime, in the process that made it. A child of fork() has neither its threads nor a GPU, so
// it leaves the runtime alone.
class OwnedRuntime {
 public:
  OwnedRuntime(const RuntimeOptions& options, const GpuOptions& gpu)
      : runtime_(std::make_unique<GpuRuntime>(options, gpu)) {}
  ~OwnedRuntime() {
    if (::getpid() != owner_) {
      runtime_.release();  // NOLINT(bugprone-unused-return-value): never destroyed here
      return;
    }
    const LockRelease unlocked;
    runtime_.reset();
  }
  OwnedRuntime(const OwnedRuntime&) = delete;
  OwnedRuntime& operator=(const OwnedRuntime&) = delete;
  GpuRuntime& get() const {
    if (::getpid() != owner_)
      throw Error(EINVAL, "a GpuRuntime does not follow fork(); make one in the child");
    return *runtime_;
  }

 private:
  std::unique_ptr<GpuRuntime> runtime_;
  const pid_t owner_ = ::getpid();
};

// OSError with the whole reason as its text: no file is involved.
template <class Work>
auto with_reasons(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    raise_os_error(error.code().value(), error.reason());
    throw nb::python_error();
  }
}

// The same without the interpreter's lock.
template <class Work>
auto unlocked(const OwnedRuntime& self, Work work) {
  return with_reasons([&] {
    GpuRuntime& runtime = self.get();
    const LockRelease unlocked;
    return work(runtime);
  });
}

constexpr std::pair<const char*, device::Placement> placements[] = {
    {"host", device::Placement::host},
    {"compute", device::Placement::compute},
    {"automatic", device::Placement::automatic}};

void make_runtime(OwnedRuntime* self, std::uint64_t arena_bytes, std::uint64_t cache_bytes,
                  std::uint32_t page_bytes, unsigned groups, int device,
                  const std::string& placement, unsigned server_threads, unsigned files_max,
                  std::uint64_t staging_bytes, std::uint64_t pull_bytes) {
  RuntimeOptions options;
  options.arena_bytes = arena_bytes;
  options.cache_bytes = cache_bytes;
  options.page_bytes = page_bytes;
  options.placement =
      named(placements, placement, "placement is \"host\", \"compute\" or \"automatic\"");
  options.server_threads = server_threads;
  options.files_max = files_max;
  GpuOptions gpu;
  gpu.ordinal = device;
  gpu.groups = groups;
  gpu.staging_bytes = staging_bytes;
  gpu.pull_bytes = pull_bytes;
  with_reasons([&] {
    const LockRelease unlocked;
    new (self) OwnedRuntime(options, gpu);
  });
}

// (finished, files left open, errors)
nb::tuple shut_down(const OwnedRuntime& self, double timeout_s) {
  if (!(timeout_s >= 0) || timeout_s > 1e9)
    throw nb::value_error("timeout_s: from 0 to 1e9 seconds");
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(std::ceil(timeout_s * 1000)));
  const ShutdownReport report =
      unlocked(self, [&](GpuRuntime& runtime) { return runtime.shutdown(timeout); });
  return nb::make_tuple(report.finished, report.files_closed, report.errors);
}

nb::dict statistics(const OwnedRuntime& self) {
  const RuntimeStatistics got =
      unlocked(self, [](GpuRuntime& runtime) { return runtime.statistics(); });
  nb::dict dict;
  dict["calls"] = got.calls;
  dict["batches"] = got.batches;
  dict["doorbells"] = got.doorbells;
  dict["staged_calls"] = got.staged_calls;
  dict["staged_bytes"] = got.staged_bytes;
  dict["requests"] = got.requests;
  dict["refused_requests"] = got.refused_requests;
  dict["bytes_read"] = got.bytes_read;
  dict["bytes_written"] = got.bytes_written;
  dict["server_cpu_ns"] = got.server_cpu_ns;
  dict["cache_hits"] = got.cache.hits;
  dict["cache_misses"] = got.cache.misses;
  return dict;
}

std::uint64_t dirty_pages(const OwnedRuntime& self) {
  return unlocked(self, [](GpuRuntime& runtime) { return runtime.dirty_pages(); });
}

}  // namespace

void bind_gpu_runtime(nb::module_& module) {
  module.def("cache_line_bytes", [] { return device::cache_line_bytes; });
  nb::class_<OwnedRuntime>(module, "GpuRuntime")
      .def("__init__", &make_runtime)
      .def("context",
           [](const OwnedRuntime& self) {
             return with_reasons(
                 [&] { return reinterpret_cast<std::uintptr_t>(self.get().context()); });
           })
      .def("own_group",
           [](const OwnedRuntime& self) {
             return with_reasons([&] { return self.get().own_group(); });
           })
      .def("shut_down", &shut_down)
      .def("statistics", &statistics)
      .def("dirty_pages", &dirty_pages);
}

}  // namespace ferry::python
