#include "server/server.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace ferry::server {
namespace {

// The CPU clock of any thread of this process, as made by pthread_getcpuclockid. Exact while the
// thread runs, where /proc/self/task/ID/schedstat is as old as the last tick.
clockid_t cpu_clock(pid_t thread) {
  constexpr unsigned per_thread_scheduler_clock = 6;
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3U | per_thread_scheduler_clock);
}

std::optional<std::chrono::nanoseconds> cpu_time(pid_t thread) {
  timespec time{};
  if (clock_gettime(cpu_clock(thread), &time) != 0) return std::nullopt;
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Whether a thread of this process has a CPU or waits for one. False where the kernel does not say.
bool is_runnable(pid_t thread) {
  char text[128];
  std::snprintf(text, sizeof text, "/proc/self/task/%d/stat", thread);
  const int file = open(text, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes <= 0) return false;
  text[bytes] = 0;
  const char* end_of_name = std::strrchr(text, ')');  // a name may have parentheses
  return end_of_name != nullptr && end_of_name[1] == ' ' && end_of_name[2] == 'R';
}

}  // namespace

using device::LoopPhase;
using device::SystemRef;

Server::Server(const device::ArenaView& arena, storage::Storage& storage, ServerOptions options)
    : arena_(arena),
      storage_(storage),
      options_(std::move(options)),
      files_(arena.layout.geometry.files),
      thread_ids_(arena.layout.geometry.loops),
      last_usage_(arena.layout.geometry.loops) {
  const std::uint32_t loops = arena_.layout.geometry.loops;
  for (std::uint32_t index = 0; index < loops; ++index) {
    LoopOptions loop;
    loop.index = index;
    loop.spin = options_.spin;
    loop.in_flight_max = options_.in_flight_max;
    loop.read_word = options_.read_word;
    if (options_.execute) {
      loop.execute = [this, index](const device::Request& request, Pump& pump) {
        return options_.execute(index, request, pump);
      };
    }
    if (options_.inject) {
      loop.inject = [this, index](LoopPoint where) { options_.inject(index, where); };
    }
    loops_.push_back(std::make_unique<Loop>(arena_, storage_, files_, std::move(loop)));
  }
  try {
    start_threads();
  } catch (...) {
    for (auto& loop : loops_)
      loop->stop(std::chrono::steady_clock::now());
    end_threads();
    throw;
  }
}

void Server::start_threads() try {
  for (std::uint32_t index = 0; index < loops_.size(); ++index) {
    threads_.emplace_back([this, index] {
      name_this_thread("ferry-server");
      if (options_.cpus.size() >= loops_.size()) {
        run_this_thread_on_cpu(options_.cpus[index]);
      } else {
        run_this_thread_on(options_.cpus);
      }
      thread_ids_[index].store(number_of_this_thread(), std::memory_order_release);
      loops_[index]->run();
      ThreadUsage last;
      try {
        last = usage(index);
      } catch (const std::bad_alloc&) {  // numbers for people
      }
      const std::lock_guard lock(usage_mutex_);
      thread_ids_[index].store(0, std::memory_order_release);
      last_usage_[index] = last;
    });
  }
  watchdog_ = std::thread([this, seen = std::vector<Seen>(loops_.size())]() mutable {
    name_this_thread("ferry-watchdog");
    watch(seen);
  });
} catch (const std::system_error& error) {
  throw std::system_error(error.code(), "starting the server's threads");
}

Server::~Server() {
  try {
    if (stop(std::chrono::milliseconds(0)).finished) return;
  } catch (const std::bad_alloc&) {  // of the report
  }
  end_threads();
  try {
    StopReport rest;
    close_files(rest, std::chrono::steady_clock::time_point::max());
  } catch (const std::bad_alloc&) {  // the table closes what is left
  }
}

// Declares a loop dead that hangs for the liveness timeout: that neither progresses nor reports
// that it is inside the storage. Time in which the watchdog itself did not run (a stopped process,
// a suspended machine) does not count, nor does time in which the loop's thread waited for a CPU:
// with thousands of threads, seconds pass between its turns. The watchdog only holds its own lock
// and never waits, so it runs as long as the process: callers have no other source for a hung
// loop's death (R8).
void Server::watch(std::vector<Seen>& seen) {
  using Clock = std::chrono::steady_clock;
  const auto period = std::clamp<std::chrono::nanoseconds>(
      options_.liveness_timeout / 8, std::chrono::milliseconds(5), std::chrono::milliseconds(100));
  auto last = Clock::now();
  std::unique_lock lock(watch_mutex_);
  while (!watch_wake_.wait_for(lock, period, [this] { return watch_ends_; })) {
    const auto now = Clock::now();
    const auto passed = std::min<std::chrono::nanoseconds>(now - last, 2 * period);
    last = now;
    for (std::uint32_t index = 0; index < seen.size(); ++index) {
      Loop& loop = *loops_[index];
      const std::uint64_t iterations = loop.iterations();
      const pid_t thread = thread_ids_[index].load(std::memory_order_acquire);
      const auto cpu = thread != 0 ? cpu_time(thread) : std::nullopt;
      if (iterations != seen[index].iterations || loop.in_storage() || loop.ended() ||
          thread == 0) {  // it has not begun, or ended
        seen[index] = Seen{iterations, {}, {false, cpu}};
        continue;
      }
      const ThreadState now_seen{is_runnable(thread), cpu};
      seen[index].still += time_at_standstill(passed, seen[index].thread, now_seen);
      seen[index].thread = now_seen;
      if (seen[index].still > options_.liveness_timeout) loop.declare_dead();
    }
  }
}

bool Server::wait_for_loops(std::chrono::steady_clock::time_point until) {
  for (;;) {
    if (std::all_of(loops_.begin(), loops_.end(), [](auto& loop) { return loop->ended(); })) {
      return true;
    }
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Server::end_threads() {
  if (threads_.empty()) return;
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
  {
    const std::lock_guard lock(watch_mutex_);
    watch_ends_ = true;
  }
  watch_wake_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
}

StopReport Server::stop(std::chrono::milliseconds deadline) {
  // Time for cancelled operations to return.
  constexpr std::chrono::milliseconds grace{100};
  const std::lock_guard lock(stop_mutex_);
  StopReport report;
  report.finished = true;
  if (stopped_) return report;
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (auto& loop : loops_)
    loop->stop(until);
  if (!wait_for_loops(until + grace)) {
    report.finished = false;
    report.errors.emplace_back("operations that cannot be cancelled outlasted the deadline");
    return report;
  }
  for (std::uint32_t index = 0; index < loops_.size() && !threads_.empty(); ++index) {
    if (SystemRef<LoopPhase>(arena_.loop_state(index).phase).load(device::acquire) ==
        LoopPhase::dead) {
      report.errors.push_back("server loop " + std::to_string(index) + " had died");
    }
  }
  end_threads();
  stopped_ = close_files(report, until + grace);
  report.finished = stopped_;
  return report;
}

void Server::serve_only(std::uint32_t group, std::chrono::steady_clock::time_point deadline) {
  for (auto& loop : loops_)
    loop->serve_only(group, deadline);
}

// Closes in progress, all at once, so that a hung storage delays no other file. The queue is
// destroyed first: it knows the operations.
struct Server::Closes {
  struct Close : storage::Operation {
    std::int32_t handle = 0;
    std::string path;
  };
  void submit_some() {
    while (begun < list.size() && begun - ended < storage::QueueOptions{}.depth)
      queue->submit(list[begun++]);
    queue->flush();
  }
  std::size_t left() const { return list.size() - ended; }

  std::uint32_t word = 0;
  std::deque<Close> list;
  std::size_t begun = 0;
  std::size_t ended = 0;
  std::unique_ptr<storage::Queue> queue;
};

// Destroying a file also closes it, but cannot report late errors.
void Server::close_without_queue(StopReport& report) {
  for (const std::int32_t handle : files_.open_handles()) {
    if (!files_.begin_close(handle) || !files_.unused(handle)) continue;
    delete files_.finish_close(handle);
    ++report.files_closed;
  }
  report.errors.emplace_back("files that were left open were closed without a look for errors");
}

void Server::begin_closes(StopReport& report) {
  const auto handles = files_.open_handles();
  if (handles.empty()) return;
  auto closes = std::make_unique<Closes>();
  storage::QueueOptions options;
  options.doorbell = storage::Doorbell{&closes->word};
  try {
    closes->queue = storage_.make_queue(options);
  } catch (const std::exception&) {  // for example, out of descriptors
    return close_without_queue(report);
  }
  // What needs memory comes first: until then, every file is in the table.
  for (const std::int32_t handle : handles) {
    // A loop declared dead may still hold it; the kernel closes it with the process.
    if (!files_.unused(handle)) continue;
    Closes::Close& close = closes->list.emplace_back();
    close.path = files_.path_of(handle);
    close.kind = storage::Kind::close;
    close.handle = handle;
  }
  for (Closes::Close& close : closes->list) {
    files_.begin_close(close.handle);
    close.file = files_.finish_close(close.handle);
  }
  if (closes->left() > 0) closes_ = std::move(closes);
}

bool Server::close_files(StopReport& report, std::chrono::steady_clock::time_point until) {
  if (closes_ == nullptr) begin_closes(report);
  while (closes_ != nullptr && closes_->left() > 0) {
    const std::uint32_t seen = std::atomic_ref<std::uint32_t>(closes_->word).load();
    closes_->submit_some();
    if (const storage::Operation* ended = closes_->queue->reap(); ended != nullptr) {
      ++closes_->ended;
      ++report.files_closed;
      if (ended->result < 0) {
        report.errors.push_back(
            "closing " + static_cast<const Closes::Close*>(ended)->path +
            ", which was left open: " + std::strerror(static_cast<int>(-ended->result)));
      }
    } else if (std::chrono::steady_clock::now() > until) {
      report.errors.push_back("closing " + std::to_string(closes_->left()) +
                              " files that were left open outlasted the deadline");
      return false;
    } else {
      closes_->queue->wait(seen, std::chrono::milliseconds(10));
    }
  }
  closes_.reset();
  return true;
}

ThreadUsage Server::usage(unsigned loop) const {
  const std::lock_guard lock(usage_mutex_);
  ThreadUsage usage;
  const pid_t id = thread_ids_[loop].load(std::memory_order_acquire);
  if (id == 0) return last_usage_[loop];
  const std::string directory = "/proc/self/task/" + std::to_string(id);
  std::ifstream status(directory + "/status");
  for (std::string line; std::getline(status, line);) {
    std::sscanf(line.c_str(), "voluntary_ctxt_switches: %lu", &usage.voluntary_switches);
    std::sscanf(line.c_str(), "nonvoluntary_ctxt_switches: %lu", &usage.involuntary_switches);
  }
  usage.cpu_ns =
      static_cast<std::uint64_t>(cpu_time(id).value_or(std::chrono::nanoseconds{0}).count());
  return usage;
}

}  // namespace ferry::server
