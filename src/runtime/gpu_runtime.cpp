#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <ferry/gpu.hpp>

#include "backend/cpu/arena.hpp"
#include "backend/cuda/arena.hpp"
#include "base/cpus.hpp"
#include "base/forks.hpp"
#include "runtime/cache_plan.hpp"
#include "runtime/cpu_plan.hpp"
#include "runtime/parts.hpp"
#include "runtime/tuning.hpp"
#include "server/server.hpp"
#include "storage/router.hpp"

namespace ferry {
namespace {

constexpr std::uint32_t slots_per_ring = 1024;
// Kernels have far more simultaneously submitting groups than a CPU has threads.
constexpr unsigned rings_per_loop = 4;

device::Geometry make_geometry(const RuntimeOptions& options, const GpuOptions& gpu,
                               const CpuPlan& plan) {
  if (gpu.groups == 0 || gpu.groups > (1U << 20)) throw Error(EINVAL, "groups: from 1 to 1048576");
  // Their number goes into a sum of 32 bits.
  if (gpu.services > (1U << 16) - 1) throw Error(EINVAL, "services: at most 65535");
  if (gpu.calls_per_group == 0 || gpu.calls_per_group > device::cells_per_group_max)
    throw Error(EINVAL, "calls_per_group: from 1 to 64");
  if (gpu.staging_bytes < 4096) throw Error(EINVAL, "staging_bytes: at least 4096");
  if (options.files_max == 0 || options.files_max > device::open_files_max)
    throw Error(EINVAL, "files_max: from 1 to 65536");
  device::Geometry geometry;
  geometry.loops = plan.server_threads;
  geometry.rings = std::max(options.rings, rings_per_loop * plan.server_threads);
  geometry.services = gpu.services;
  geometry.slots_per_ring = slots_per_ring;
  geometry.groups = gpu.groups + 1 + gpu.services;
  geometry.cells_per_group = gpu.calls_per_group;
  geometry.files = options.files_max;
  geometry.staging_bytes = gpu.staging_bytes;
  size_arena(options, geometry);
  return geometry;
}

// Only the server's threads; kernels need no CPU.
CpuPlan plan_server(RuntimeOptions options) {
  options.device_cpus.clear();
  options.device_threads = 1;
  options.service_threads = 0;
  return plan_cpus(options, allowed_cpus(), usable_cpus());
}

}  // namespace

class GpuRuntime::Implementation {
 public:
  Implementation(const RuntimeOptions& wishes, const GpuOptions& gpu)
      : tuning_(tune(wishes)),
        gpu_(gpu),
        plan_(plan_server(tuning_.options)),
        geometry_(make_geometry(tuning_.options, gpu, plan_)),
        arena_(device::lay_out(geometry_), gpu.ordinal) {
    const RuntimeOptions& options = tuning_.options;
    view_.base = arena_.base();
    view_.local = arena_.local();
    view_.layout = device::lay_out(geometry_);
    std::memcpy(view_.base, &view_.layout, sizeof(device::Control));
    heap_ = std::make_unique<cpu::Heap>(view_.local + view_.layout.heap,
                                        geometry_.arena_bytes - view_.layout.heap);
    context_.arena = view_;
    context_.arena.base = arena_.device_base();
    context_.placement = options.placement;
    context_.always_served = false;
    context_.pull_bytes = gpu.pull_bytes;
    if (options.cache_bytes > 0) make_cache(options);
    // No launch has started the services yet.
    const std::vector<device::LoopState> stopped(gpu.services,
                                                 device::LoopState{device::LoopPhase::stopped, 0});
    arena_.write(&context_.arena.loop_state(geometry_.loops), stopped.data(),
                 stopped.size() * sizeof stopped[0]);
    on_gpu_ = allocate_from(*heap_, sizeof(device::Context), alignof(device::Context));
    arena_.write(on_gpu_.data(), &context_, sizeof context_);

    storage_ = storage::make_router({.engine = options.engine});
    carried_ = arena_.carry(*storage_, {}, geometry_.loops);
    server::ServerOptions server;
    server.cpus = plan_.server_cpus;
    server.spin = options.server_spin.count() >= 0 ? options.server_spin
                  : plan_.server_may_spin          ? server_spin_default
                                                   : std::chrono::microseconds(0);
    server.liveness_timeout = options.liveness_timeout;
    server.read_word = [this](const std::uint64_t* word) { return read_word(word); };
    server_ = std::make_unique<server::Server>(view_, *carried_, std::move(server));
  }

  const MadeHere made_here;

 private:
  friend class GpuRuntime;

  std::uint64_t read_word(const std::uint64_t* word) const {
    std::uint64_t value = 0;
    arena_.read(&value, word, sizeof value);
    return value;
  }

  void make_cache(const RuntimeOptions& options) {
    device::cache::View& cache = context_.cache;
    cache.layout = cache_layout(options, geometry_);
    cache.switches = options.cache_switches;
    cache.tunings = tuning_.tunings;
    // Atomic operations are cheap on a GPU; looking at thousands of marks for every eviction is
    // not.
    cache.marks = false;
    const auto take = [&](std::uint64_t bytes, std::uint64_t alignment) {
      void* memory = heap_->allocate(bytes, alignment);
      if (memory == nullptr) throw Error(ENOMEM, "no room for the page cache");
      return memory;
    };
    cache.base = static_cast<unsigned char*>(
        take(cache.layout.bytes, device::cache::alignment_bytes(cache.layout.geometry)));
    // Everything before the pages themselves, which are not read before they are filled.
    std::vector<unsigned char> image(cache.layout.pages);
    device::cache::View host = cache;
    host.base = image.data();
    device::cache::prepare(host);
    arena_.write(cache.base, image.data(), image.size());
    const std::uint32_t entries = bypass_entries(cache.layout.geometry.frames);
    context_.bypassed.mask = entries - 1;
    context_.bypassed.entries = static_cast<std::uint32_t*>(
        take(entries * sizeof(std::uint32_t), device::cache_line_bytes));
  }

  const Tuning tuning_;
  const GpuOptions gpu_;
  const CpuPlan plan_;
  const device::Geometry geometry_;
  const cuda::GpuArena arena_;
  device::ArenaView view_;   // the server's
  device::Context context_;  // the kernels'
  std::unique_ptr<cpu::Heap> heap_;
  Buffer on_gpu_;
  std::unique_ptr<storage::Storage> storage_;
  std::unique_ptr<storage::Storage> carried_;
  std::unique_ptr<server::Server> server_;  // last: it uses everything above
  std::mutex shutdown_mutex_;
  bool reported_ = false;  // guarded by it
};

GpuRuntime::GpuRuntime(const RuntimeOptions& options, const GpuOptions& gpu) {
  try {
    implementation_ = std::make_unique<Implementation>(options, gpu);
  } catch (const Error&) {
    throw;
  } catch (const std::system_error& error) {
    throw Error(error);
  }
}

GpuRuntime::~GpuRuntime() {
  if (implementation_->made_here) {
    try {
      shutdown(shutdown_deadline_default);
    } catch (const std::exception&) {  // shutdown() would report it; nobody is left to hear it
    }
  } else {
    static_cast<void>(implementation_.release());
  }
}

GpuRuntime::Implementation& GpuRuntime::mine() const {
  if (!implementation_->made_here) throw Error(ECHILD, not_of_a_child);
  return *implementation_;
}

const device::Context* GpuRuntime::context() const {
  return mine().on_gpu_.as<device::Context>();
}

const device::Context& GpuRuntime::host_context() const {
  return mine().context_;
}

const GpuOptions& GpuRuntime::options() const {
  return mine().gpu_;
}

unsigned GpuRuntime::own_group() const {
  return mine().gpu_.groups;
}

unsigned GpuRuntime::first_service_group() const {
  return own_group() + 1;
}

Buffer GpuRuntime::allocate(std::uint64_t bytes, std::uint64_t alignment_bytes) {
  return allocate_from(*mine().heap_, bytes, alignment_bytes);
}

std::uint64_t GpuRuntime::dirty_pages() const {
  const Implementation& own = mine();
  return own.context_.cache.base != nullptr
             ? own.read_word(&own.context_.cache.shared().dirty_pages)
             : 0;
}

ShutdownReport GpuRuntime::shutdown(std::chrono::milliseconds deadline) {
  Implementation& own = mine();
  const std::lock_guard lock(own.shutdown_mutex_);
  server::StopReport report = own.server_->stop(deadline);
  ShutdownReport sum{report.finished, report.files_closed, std::move(report.errors)};
  try {
    if (const std::uint64_t pages = dirty_pages(); pages > 0 && !own.reported_) {
      own.reported_ = true;
      sum.errors.push_back(std::to_string(pages) +
                           " pages of the GPU's cache were not written back; close files in the "
                           "kernel, or call ferry::gpu::write_back() before shutdown()");
    }
  } catch (const Error& error) {
    sum.errors.emplace_back(error.what());
  }
  return sum;
}

RuntimeInfo GpuRuntime::info() const {
  const Implementation& own = mine();
  const cuda::DeviceInfo gpu = own.arena_.context().driver().device_info(own.gpu_.ordinal);
  RuntimeInfo info = describe_settings(own.tuning_, own.storage_->describe());
  info.device_threads = own.gpu_.groups;
  info.server_cpus = to_string(own.plan_.server_cpus);
  info.server_threads = own.plan_.server_threads;
  info.service_threads = own.gpu_.services;
  info.oversubscribed = !own.plan_.server_may_spin;
  info.arena_bytes = own.geometry_.arena_bytes;
  info.arena_pages =
      gpu.name + ", and " + std::to_string(own.view_.layout.local) + " bytes of pinned host memory";
  return info;
}

RuntimeStatistics GpuRuntime::statistics() const {
  const Implementation& own = mine();
  RuntimeStatistics sum;
  std::vector<device::GroupCounters> calls(own.geometry_.groups);
  own.arena_.read(calls.data(), &own.context_.arena.counters(0), calls.size() * sizeof calls[0]);
  for (const device::GroupCounters& counters : calls)
    add_up(sum, counters);
  if (own.context_.cache.base != nullptr) {
    std::vector<device::cache::Counters> pages(own.geometry_.groups);
    own.arena_.read(pages.data(), &own.context_.cache.counters(0), pages.size() * sizeof pages[0]);
    for (const device::cache::Counters& counters : pages)
      add_up(sum, counters);
  }
  add_up(sum, *own.server_);
  return sum;
}

}  // namespace ferry
