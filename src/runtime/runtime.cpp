#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <fcntl.h>

#include <ferry/runtime.hpp>

#include "backend/cpu/arena.hpp"
#include "backend/cpu/hooks.hpp"
#include "base/cpus.hpp"
#include "base/forks.hpp"
#include "runtime/cache_plan.hpp"
#include "runtime/copy_trials.hpp"
#include "runtime/cpu_plan.hpp"
#include "runtime/ending.hpp"
#include "runtime/parts.hpp"
#include "runtime/services.hpp"
#include "runtime/tuning.hpp"
#include "server/server.hpp"
#include "storage/router.hpp"

namespace ferry {
namespace {

// Longer than a read from a fast disk: waking a sleeping core costs as much as a tenth of one, and
// the device's cores have nothing else to do.
constexpr std::chrono::microseconds device_spin_default{500};
constexpr std::uint32_t files_max_limit = device::open_files_max;

// Few threads have large areas, so that their calls with buffers outside the arena need few steps.
// Many share this much, so that thousands of threads fit beside a small cache.
std::uint64_t staging_bytes(std::uint32_t groups) {
  constexpr std::uint64_t together = std::uint64_t{32} << 20;
  constexpr std::uint64_t step = 4096;
  return std::clamp<std::uint64_t>(together / groups / step * step, 2 * step, 64 * step);
}

device::Geometry make_geometry(const RuntimeOptions& options, const CpuPlan& plan) {
  if (options.files_max == 0 || options.files_max > files_max_limit) {
    throw Error(EINVAL, "files_max: from 1 to " + std::to_string(files_max_limit));
  }
  device::Geometry geometry;
  geometry.loops = plan.server_threads;
  geometry.rings = options.rings != 0 ? options.rings : plan.server_threads;
  if (geometry.rings < geometry.loops) {
    throw Error(EINVAL, "rings: at least one per server thread");
  }
  geometry.services = plan.service_threads;
  // After the device threads' groups come the runtime's own and those of executors of cached calls:
  // the services, or the server's loops.
  geometry.groups = plan.device_threads + 1;
  if (options.cache_bytes > 0)
    geometry.groups += geometry.services > 0 ? geometry.services : geometry.loops;
  // Room for a call of each thread: those that find a ring full look again and again.
  const std::uint32_t threads_per_ring = (geometry.groups + geometry.rings - 1) / geometry.rings;
  geometry.slots_per_ring = std::max(geometry.slots_per_ring, std::bit_ceil(threads_per_ring));
  geometry.files = options.files_max;
  geometry.staging_bytes = staging_bytes(geometry.groups);
  size_arena(options, geometry);
  return geometry;
}

std::chrono::nanoseconds spin_time(std::chrono::microseconds wish, bool may_spin,
                                   std::chrono::microseconds usual) {
  if (wish.count() >= 0) return wish;
  return may_spin ? usual : std::chrono::microseconds(0);
}

}  // namespace

class Runtime::Implementation {
 public:
  explicit Implementation(const RuntimeOptions& wishes) : Implementation(tune(wishes)) {}

  explicit Implementation(const Tuning& tuning) : Implementation(tuning, tuning.options) {}

  // `options` are the tuned ones.
  Implementation(const Tuning& tuning, const RuntimeOptions& options)
      : tuning_(tuning),
        plan_(plan_cpus(options, allowed_cpus(), usable_cpus())),
        geometry_(make_geometry(options, plan_)),
        arena_(options.reader_groups > 0
                   ? cpu::CpuArena::shared(geometry_.arena_bytes)
                   : cpu::CpuArena(geometry_.arena_bytes, plan_.device_cpus)) {
    context_.arena.base = arena_.base();
    context_.arena.local = arena_.base();
    context_.arena.layout = device::lay_out(geometry_);
    // For a process that joins later; both sides here keep their copies.
    std::memcpy(arena_.base(), &context_.arena.layout, sizeof(device::Control));
    context_.hooks = cpu::host_hooks();
    context_.wait.spin_ns = static_cast<std::uint64_t>(
        spin_time(options.device_spin, plan_.device_may_spin, device_spin_default).count());
    heap_ = std::make_unique<cpu::Heap>(arena_.base() + context_.arena.layout.heap,
                                        geometry_.arena_bytes - context_.arena.layout.heap);
    if (options.cache_bytes > 0) make_cache(options);
    context_.placement = options.placement;
    storage_ = storage::make_router({.engine = options.engine});
    server::ServerOptions server;
    server.cpus = plan_.server_cpus;
    server.spin = spin_time(options.server_spin, plan_.server_may_spin, server_spin_default);
    server.liveness_timeout = options.liveness_timeout;
    start_services(server);
    server_ = std::make_unique<server::Server>(context_.arena, *storage_, std::move(server));
    ending_ = std::make_unique<Ending>(context_, plan_.device_threads, *server_, [this] {
      if (services_ != nullptr) services_->stop();
    });
  }

  const MadeHere made_here;

 private:
  friend class Runtime;

  void make_cache(const RuntimeOptions& options) {
    context_.cache.layout = cache_layout(options, geometry_);
    context_.cache.switches = options.cache_switches;
    // That barrier does not reach other processes, whose marks therefore have their own.
    context_.cache.barriers_everywhere =
        options.reader_groups == 0 && context_.hooks.barrier_everywhere != nullptr;
    context_.cache.tunings = tuning_.tunings;
    // A new mapping: the arena is zeroed.
    const device::cache::CacheLayout& layout = context_.cache.layout;
    context_.cache.base = static_cast<unsigned char*>(
        heap_->allocate(layout.bytes, device::cache::alignment_bytes(layout.geometry)));
    if (context_.cache.base == nullptr) throw Error(ENOMEM, "no room for the page cache");
    device::cache::prepare(context_.cache);
    context_.cache.streaming = try_copies();
    const std::uint32_t entries = bypass_entries(context_.cache.layout.geometry.frames);
    context_.bypassed.mask = entries - 1;
    context_.bypassed.entries = static_cast<std::uint32_t*>(
        heap_->allocate(entries * sizeof(std::uint32_t), device::cache_line_bytes));
    if (context_.bypassed.entries == nullptr) throw Error(ENOMEM, "no room for the page cache");
  }

  // The built-in numbers where memory is too small for it, or shared with other processes: such
  // pages are made when they are first used, which would be timed as well.
  device::StreamingCopies try_copies() {
    const device::cache::View& cache = context_.cache;
    const std::uint64_t bytes = cache.layout.bytes - cache.layout.pages;
    if (arena_.file() >= 0 || bytes < trial_pages_bytes) return {};
    void* buffer = heap_->allocate(trial_buffer_bytes, device::cache::page_bytes_min);
    if (buffer == nullptr) return {};
    device::StreamingCopies tried;
    std::thread([&] {
      run_this_thread_on(plan_.device_cpus);
      tried = try_streaming_copies({cache.page(0), bytes},
                                   {static_cast<unsigned char*>(buffer), trial_buffer_bytes});
    }).join();
    heap_->free(buffer);
    return tried;
  }

  // The executors of others' cached calls: their own threads, or the server's loops.
  void start_services(server::ServerOptions& server) {
    if (context_.cache.base == nullptr) return;
    const std::uint32_t first_group = plan_.device_threads + 1;
    if (geometry_.services > 0) {
      services_ = std::make_unique<ServiceThreads>(context_, first_group, plan_.service_cpus);
      return;
    }
    loop_services_ = std::make_unique<LoopServices>(context_, first_group);
    server.execute = [this](std::uint32_t loop, const device::Request& request,
                            server::Pump& pump) {
      return loop_services_->execute(loop, request, pump);
    };
  }

  // One CPU each if there are enough; else the scheduler spreads them over the partition.
  void bind_device_thread(unsigned index) const {
    if (plan_.device_threads <= plan_.device_cpus.size()) {
      run_this_thread_on_cpu(plan_.device_cpus[index]);
    } else {
      run_this_thread_on(plan_.device_cpus);
    }
  }

  const Tuning tuning_;
  const CpuPlan plan_;
  const device::Geometry geometry_;
  cpu::CpuArena arena_;
  device::Context context_;
  std::unique_ptr<cpu::Heap> heap_;
  std::unique_ptr<storage::Storage> storage_;
  std::unique_ptr<LoopServices> loop_services_;
  std::unique_ptr<ServiceThreads> services_;  // before the server, whose end ends their waits
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Ending> ending_;  // last: it uses everything above
  std::mutex run_mutex_;
};

Runtime::Runtime(const RuntimeOptions& options) {
  try {
    implementation_ = std::make_unique<Implementation>(options);
  } catch (const Error&) {
    throw;
  } catch (const std::system_error& error) {
    throw Error(error);
  }
}

Runtime::~Runtime() {
  if (implementation_->made_here) {
    try {
      shutdown(shutdown_deadline_default);
    } catch (const std::bad_alloc&) {  // of its report
    }
  } else {
    static_cast<void>(implementation_.release());
  }
}

Runtime::Implementation& Runtime::mine() const {
  if (!implementation_->made_here) throw Error(ECHILD, not_of_a_child);
  return *implementation_;
}

void Runtime::run(const Program& program) {
  Implementation& own = mine();
  const std::lock_guard lock(own.run_mutex_);
  std::mutex error_mutex;
  std::exception_ptr first_error;
  // All begin or, where one cannot be started, none: a program may wait for its other threads.
  enum : int { waits, begins, leaves };
  std::atomic<int> start = waits;
  std::vector<std::thread> threads;
  const auto end_all = [&](int how) {
    start = how;
    start.notify_all();
    for (std::thread& thread : threads)
      thread.join();
  };
  const auto start_thread = [&](unsigned index) {
    threads.emplace_back([&, index] {
      name_this_thread("ferry-device");
      own.bind_device_thread(index);
      start.wait(waits);
      if (start == leaves) return;
      DeviceThread self{index, own.plan_.device_threads,
                        device::FileCalls(own.context_, device::ThreadGroup{}, index)};
      try {
        program(self);
      } catch (...) {
        const std::lock_guard error_lock(error_mutex);
        if (!first_error) first_error = std::current_exception();
      }
      self.files.drain();
    });
  };
  try {
    for (unsigned index = 0; index < own.plan_.device_threads; ++index)
      start_thread(index);
  } catch (const std::system_error& error) {
    end_all(leaves);
    throw Error(error.code().value(), "starting the device's threads");
  } catch (...) {
    end_all(leaves);
    throw;
  }
  end_all(begins);
  if (first_error) std::rethrow_exception(first_error);
}

void Runtime::use_cache_switches(const device::cache::Switches& switches) {
  Implementation& own = mine();
  const std::lock_guard lock(own.run_mutex_);
  own.context_.cache.switches = switches;
}

Buffer Runtime::allocate(std::uint64_t bytes, std::uint64_t alignment_bytes) {
  return allocate_from(*mine().heap_, bytes, alignment_bytes);
}

ShutdownReport Runtime::shutdown(std::chrono::milliseconds deadline) {
  return mine().ending_->shutdown(deadline);
}

RuntimeInfo Runtime::info() const {
  const Implementation& own = mine();
  RuntimeInfo info = describe_settings(own.tuning_, own.storage_->describe());
  info.device_cpus = to_string(own.plan_.device_cpus);
  info.device_threads = own.plan_.device_threads;
  info.server_cpus = to_string(own.plan_.server_cpus);
  info.server_threads = own.plan_.server_threads;
  info.service_cpus = to_string(own.plan_.service_cpus);
  info.service_threads = own.plan_.service_threads;
  info.oversubscribed = !own.plan_.device_may_spin || !own.plan_.server_may_spin;
  info.streaming_copies = own.context_.cache.streaming;
  info.arena_bytes = own.geometry_.arena_bytes;
  info.arena_pages = own.arena_.page_kind();
  if (info.oversubscribed) {
    info.notes.emplace_back(
        "oversubscribed: too few CPUs for every thread to have its own, so "
        "waits sleep instead of spinning");
  }
  return info;
}

RuntimeStatistics Runtime::statistics() const {
  const Implementation& own = mine();
  RuntimeStatistics sum;
  for (unsigned group = 0; group < own.geometry_.groups; ++group)
    add_up(sum, own.context_.arena.counters(group));
  const device::cache::View& cache = own.context_.cache;
  if (cache.base != nullptr) {
    for (unsigned group = 0; group < cache.layout.geometry.groups; ++group)
      add_up(sum, cache.counters(group));
  }
  add_up(sum, *own.server_);
  return sum;
}

int Runtime::arena_file() const {
  return mine().arena_.file();
}

const device::Context& Runtime::context() const {
  return mine().context_;
}

}  // namespace ferry
