#include "tools/cell_run.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "tools/file_access.hpp"
#include "tools/layout.hpp"
#include "tools/programs.hpp"
#include "tools/verification.hpp"

namespace ferry::bench {
namespace {

struct Span {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

struct Worker {
  Part part;
  Buffer buffer;
  std::vector<std::uint32_t> order;
  Span open;
  Span transfers;
  Span flush;
  Span sync;
  Span close;
  Usage usage;
  ProgramOutput output;
};

class Repeat {
 public:
  Repeat(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped)
      : runtime_(runtime),
        cell_(run.cell),
        run_(run),
        stopped_(stopped),
        barrier_(static_cast<std::ptrdiff_t>(run.cell.threads)),
        parts_(parts_by_thread(run.cell, run.repeat)),
        workers_(run.cell.threads) {
    for (unsigned i = 0; i < cell_.threads; ++i) {
      workers_[i].part = part_of(cell_, parts_[i]);
      workers_[i].buffer = runtime.allocate(cell_.buffer_offset_bytes + cell_.buffer_bytes());
      workers_[i].order = make_order(cell_, i);
    }
  }

  Sample run() {
    runtime_.run([this](DeviceThread& self) {
      if (self.index < cell_.threads) on_thread(self);
    });
    if (error_) std::rethrow_exception(error_);
    return make_sample();
  }

 private:
  // Does one step on this thread, unless something failed before. A thread whose step failed goes
  // on through the barriers, so that nobody waits for it in vain.
  template <class Step>
  void attempt(Step step) {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      step();
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  // The same, then waits for the others.
  template <class Step>
  void phase(Step step) {
    attempt(step);
    barrier_.arrive_and_wait();
  }

  template <class Step>
  void timed(Span& span, Step step) {
    attempt([&] {
      span.begin_ns = now_ns();
      step();
      span.end_ns = now_ns();
    });
  }

  template <class Step>
  void timed_phase(Span& span, Step step) {
    timed(span, step);
    if (cell_.barriers) barrier_.arrive_and_wait();
  }

  void on_thread(DeviceThread& self) {
    const bool leads = self.index == 0;
    Worker& worker = workers_[self.index];
    std::optional<WarmPart> warm;
    if (cell_.warm) fill_cache(self, worker, warm);
    if (cell_.operation == Operation::read && cell_.interface == Interface::ferry && !cell_.warm)
      phase([&] { empty_device_cache(cell_, worker.part, self); });
    const Accesses files = make_accesses(cell_, worker.part, self);
    FileAccess& file = *files.front();
    const ProgramInput input{cell_,
                             files,
                             open_flags(cell_) | run_.create_flags,
                             worker.buffer.as<unsigned char>() + cell_.buffer_offset_bytes,
                             worker.part,
                             contents_of(cell_, pattern_seed(), worker.part.file).seed,
                             worker.order,
                             stopped_};
    phase([&] { prepare_buffer(input); });
    if (leads) begin_counting();
    barrier_.arrive_and_wait();

    const Usage before = thread_usage();
    open_on_all(file, worker, leads);
    timed_phase(worker.transfers, [&] { run_program(input, worker.output); });
    if (cell_.flushes()) timed_phase(worker.flush, [&] { file.flush(); });
    if (cell_.syncs()) timed_phase(worker.sync, [&] { file.sync(); });
    timed_phase(worker.close, [&] {
      if (cell_.program != Program::files) file.close();
    });
    if (!cell_.barriers) barrier_.arrive_and_wait();  // counted until all are done
    worker.usage = thread_usage() - before;

    if (leads) end_counting();
    barrier_.arrive_and_wait();
    phase([&] {
      if (cell_.operation == Operation::read) verify_buffer(input, worker.output.operations);
    });
  }

  std::uint64_t pattern_seed() const {
    return cell_.operation == Operation::read ? cell_.expect_pattern_seed.value_or(0)
                                              : run_.pattern_seed;
  }

  // The runtime's statistics bring the CPU time of the server's loops up to date, wherever they
  // run, so the process's usage is asked for after them. What the asking costs is a caller's.
  void begin_counting() {
    storage_ = read_storage_counters(run_.block_device);
    statistics_ = runtime_.statistics();
    process_ = process_usage();
  }
  void end_counting() {
    const Usage before = thread_usage();
    const RuntimeStatistics now = runtime_.statistics();
    process_ = process_usage() - process_;
    counting_ = thread_usage() - before;
    statistics_ = difference(now, statistics_);
    storage_ = read_storage_counters(run_.block_device) - storage_;
  }

  // Outside the timed region, which begins when every thread has done it.
  void fill_cache(DeviceThread& self, Worker& worker, std::optional<WarmPart>& warm) {
    if (self.index == 0) filling_ = runtime_.statistics();
    barrier_.arrive_and_wait();
    phase([&] { warm.emplace(cell_, worker.part, self, worker.buffer.as<unsigned char>()); });
    if (self.index == 0) filling_ = difference(runtime_.statistics(), filling_);
  }

  // A shared file is made by one thread before the others open it.
  void open_on_all(FileAccess& file, Worker& worker, bool leads) {
    if (cell_.program == Program::files) {  // which opens while it transfers
      timed_phase(worker.open, [] {});
      return;
    }
    const int flags = open_flags(cell_) | run_.create_flags;
    if (run_.create_flags == 0 || cell_.file_per_thread || cell_.threads == 1) {
      timed_phase(worker.open, [&] { file.open(flags); });
      return;
    }
    if (leads) timed(worker.open, [&] { file.open(flags); });
    barrier_.arrive_and_wait();
    if (!leads) timed(worker.open, [&] { file.open(open_flags(cell_)); });
    if (cell_.barriers) barrier_.arrive_and_wait();
  }

  std::uint64_t begin_of(Span Worker::*span) const {
    std::uint64_t first = UINT64_MAX;
    for (const Worker& worker : workers_)
      first = std::min(first, (worker.*span).begin_ns);
    return first;
  }
  std::uint64_t end_of(Span Worker::*span) const {
    std::uint64_t last = 0;
    for (const Worker& worker : workers_)
      last = std::max(last, (worker.*span).end_ns);
    return last;
  }
  std::uint64_t length_of(Span Worker::*span) const { return end_of(span) - begin_of(span); }

  Sample make_sample() {
    Sample sample;
    sample.elapsed_ns = end_of(&Worker::close) - begin_of(&Worker::open);
    sample.open_ns = length_of(&Worker::open);
    sample.flush_ns = cell_.flushes() ? length_of(&Worker::flush) : 0;
    sample.sync_ns = cell_.syncs() ? length_of(&Worker::sync) : 0;
    sample.close_ns = length_of(&Worker::close);
    const std::uint64_t begin_ns = begin_of(&Worker::transfers);
    const auto [first, last] = std::minmax_element(
        workers_.begin(), workers_.end(),
        [](const auto& a, const auto& b) { return a.transfers.end_ns < b.transfers.end_ns; });
    sample.first_done_ns = first->transfers.end_ns - begin_ns;
    sample.last_done_ns = last->transfers.end_ns - begin_ns;
    sample.io_ns = cell_.computes() ? last->output.calls_ns : sample.last_done_ns;
    sample.compute_ns = last->output.compute_ns;
    sample.counted = statistics_;
    sample.storage = storage_;
    sample.calls_of_part.resize(cell_.threads);
    for (unsigned i = 0; i < cell_.threads; ++i) {
      Worker& worker = workers_[i];
      sample.callers += worker.usage;
      sample.operations += worker.output.operations;
      sample.calls_of_part[parts_[i]] = worker.output.operations;
      sample.deadline_reached = sample.deadline_reached || worker.output.deadline_reached;
      sample.sum += worker.output.sum;
      const auto& latencies = worker.output.latencies_ns;
      sample.latencies_ns.insert(sample.latencies_ns.end(), latencies.begin(), latencies.end());
    }
    std::sort(sample.latencies_ns.begin(), sample.latencies_ns.end());
    counting_ += sample.callers;
    sample.others = others(process_, counting_);
    sample.bytes = sample.operations * cell_.call_bytes();
    if ((cell_.operation == Operation::read || cell_.warm) && cell_.is_cached()) {
      sample.device_cache = device_cache_state(cell_, sample.bytes, filling_, statistics_);
    }
    return sample;
  }

  Runtime& runtime_;
  const Cell& cell_;
  const CellRun& run_;
  const std::atomic<bool>& stopped_;
  std::barrier<> barrier_;
  std::vector<unsigned> parts_;  // by thread
  std::vector<Worker> workers_;
  RuntimeStatistics filling_;  // counted while the device's cache was filled
  // Before the timed region; afterwards, what was counted within it.
  RuntimeStatistics statistics_;
  Usage process_;
  Usage counting_;  // of the first thread, in end_counting()
  StorageCounters storage_;
  std::atomic<bool> failed_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace

Sample run_cell(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped) {
  return Repeat(runtime, run, stopped).run();
}

}  // namespace ferry::bench
