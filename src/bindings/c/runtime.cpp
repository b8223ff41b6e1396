#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pthread.h>

#include <ferry/runtime.hpp>

#include "bindings/c/device_thread.hpp"
#include "bindings/c/growing_struct.hpp"
#include "bindings/c/handles.hpp"
#include "runtime/parts.hpp"

namespace ferry::c {

constinit thread_local ferry_thread* thread_of_program = nullptr;

namespace {

static_assert(FERRY_PLACEMENT_HOST == static_cast<int>(device::Placement::host));
static_assert(FERRY_PLACEMENT_COMPUTE == static_cast<int>(device::Placement::compute));
static_assert(FERRY_PLACEMENT_SERVICE == static_cast<int>(device::Placement::service));
static_assert(FERRY_PLACEMENT_AUTOMATIC == static_cast<int>(device::Placement::automatic));
static_assert(FERRY_ENGINE_AUTOMATIC == static_cast<int>(StorageEngine::automatic));
static_assert(FERRY_ENGINE_IO_URING == static_cast<int>(StorageEngine::io_uring));
static_assert(FERRY_ENGINE_THREADS == static_cast<int>(StorageEngine::threads));

constexpr ferry_runtime_options options_defaults = FERRY_RUNTIME_OPTIONS_INIT;

// A runtime, and the memory that its program has not freed.
struct OwnedRuntime {
  explicit OwnedRuntime(const RuntimeOptions& options) : runtime(options) {}

  Runtime runtime;
  std::mutex mutex;
  std::unordered_map<void*, Buffer> buffers;
};

using RuntimeHandles = HandleTable<OwnedRuntime, ferry_runtime, 3>;

std::shared_ptr<OwnedRuntime> runtime_of(const ferry_runtime* handle) {
  return RuntimeHandles::mine().get(handle);
}

std::chrono::milliseconds bounded_time(std::uint64_t time_ms) {
  constexpr std::uint64_t longest_ms = std::uint64_t{1} << 40;  // 34 years; can be added to a time
  return std::chrono::milliseconds(std::min(time_ms, longest_ms));
}

RuntimeOptions runtime_options(const ferry_runtime_options& asked) {
  if (asked.placement > FERRY_PLACEMENT_AUTOMATIC) {
    refuse("placement: one of FERRY_PLACEMENT_...");
  }
  if (asked.engine > FERRY_ENGINE_THREADS) refuse("engine: one of FERRY_ENGINE_...");
  RuntimeOptions options;
  const auto text = [](const char* given_text) { return given_text != nullptr ? given_text : ""; };
  options.device_cpus = text(asked.device_cpus);
  options.server_cpus = text(asked.server_cpus);
  options.storage_path = text(asked.storage_path);
  options.device_threads = asked.device_threads;
  options.server_threads = asked.server_threads;
  options.service_threads = asked.service_threads;
  if (asked.arena_bytes != 0) options.arena_bytes = asked.arena_bytes;
  options.cache_bytes = asked.cache_bytes;
  options.page_bytes = asked.page_bytes;
  options.placement = static_cast<device::Placement>(asked.placement);
  options.engine = static_cast<StorageEngine>(asked.engine);
  if (asked.files_max != 0) options.files_max = asked.files_max;
  options.use_profile = asked.ignore_profile == 0;
  if (asked.liveness_timeout_ms != 0) {
    options.liveness_timeout = bounded_time(asked.liveness_timeout_ms);
  }
  return options;
}

int run(Runtime& runtime, ferry_program program, void* user) {
  // Not on another runtime either, whose program may be waiting for this one's.
  if (thread_of_program != nullptr) refuse("a device program cannot run another one", EDEADLK);
  // A child of fork() has this thread without the device, whose memory it does not inherit.
  [[maybe_unused]] static const int forgets =
      pthread_atfork(nullptr, nullptr, [] { thread_of_program = nullptr; });
  std::vector<int> results(runtime.info().device_threads);
  runtime.run([&](DeviceThread& self) {
    ferry_thread thread{self};
    thread_of_program = &thread;
    results[self.index] = program(&thread, user);
    thread_of_program = nullptr;
  });
  const auto failed =
      std::find_if(results.begin(), results.end(), [](int result) { return result != 0; });
  return failed != results.end() ? *failed : 0;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "; ") + line;
  return text;
}

}  // namespace
}  // namespace ferry::c

using namespace ferry::c;

int ferry_runtime_create(ferry_runtime** runtime, const ferry_runtime_options* options) {
  return guarded([&] {
    *given(runtime, "runtime") = nullptr;
    const ferry_runtime_options& asked = options != nullptr ? *options : options_defaults;
    *runtime = RuntimeHandles::mine().add(std::make_shared<OwnedRuntime>(
        runtime_options(read_struct(&asked, options_defaults, "options"))));
    return 0;
  });
}

int ferry_runtime_destroy(ferry_runtime* runtime) {
  return guarded([&] {
    const auto report = RuntimeHandles::mine().take_unused(runtime)->runtime.shutdown(
        ferry::shutdown_deadline_default);
    if (!report.finished || !report.errors.empty()) refuse(joined(report.errors), EIO);
    return 0;
  });
}

int ferry_runtime_run(ferry_runtime* runtime, ferry_program program, void* user) {
  return guarded([&] {
    const auto owned = runtime_of(runtime);
    if (program == nullptr) refuse("program is NULL");
    return run(owned->runtime, program, user);
  });
}

int ferry_runtime_shutdown(ferry_runtime* runtime, uint64_t deadline_ms) {
  return guarded([&] {
    const auto report = runtime_of(runtime)->runtime.shutdown(bounded_time(deadline_ms));
    if (!report.finished) {
      refuse("not all is written: " + joined(report.errors), EAGAIN);
    }
    if (!report.errors.empty()) refuse(joined(report.errors), EIO);
    return 0;
  });
}

int ferry_runtime_allocate(ferry_runtime* runtime, void** memory, uint64_t bytes,
                           uint64_t alignment_bytes) {
  return guarded([&] {
    *given(memory, "memory") = nullptr;
    const auto owned = runtime_of(runtime);
    if (bytes == 0) refuse("bytes: at least 1");
    constexpr std::uint64_t alignment_default = 4096;
    ferry::Buffer buffer =
        owned->runtime.allocate(bytes, alignment_bytes != 0 ? alignment_bytes : alignment_default);
    const std::lock_guard lock(owned->mutex);
    void* data = buffer.data();
    owned->buffers.emplace(data, std::move(buffer));
    *memory = data;
    return 0;
  });
}

int ferry_runtime_free(ferry_runtime* runtime, void* memory) {
  return guarded([&] {
    const auto owned = runtime_of(runtime);
    const std::lock_guard lock(owned->mutex);
    if (owned->buffers.erase(given(memory, "memory")) == 0) {
      refuse("memory: not allocated by this runtime, or freed");
    }
    return 0;
  });
}

int64_t ferry_runtime_threads(ferry_runtime* runtime) {
  return guarded([&] { return int64_t{runtime_of(runtime)->runtime.info().device_threads}; });
}

int ferry_runtime_get_statistics(ferry_runtime* runtime, ferry_runtime_statistics* statistics) {
  return guarded([&] {
    size_of_theirs(statistics, "statistics");
    const ferry::RuntimeStatistics found = runtime_of(runtime)->runtime.statistics();
    write_struct(
        statistics,
        {sizeof(ferry_runtime_statistics), found.calls, found.staged_calls, found.bytes_read,
         found.bytes_written, found.cache.hits, found.cache.misses, found.refused_requests},
        "statistics");
    return 0;
  });
}
