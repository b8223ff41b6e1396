#include "harness/cell_run.hpp"

#include <barrier>
#include <optional>

#include "harness/attempts.hpp"
#include "harness/file_access.hpp"
#include "harness/layout.hpp"
#include "harness/programs.hpp"
#include "harness/verification.hpp"

namespace ferry::bench {
namespace {

struct Worker {
  ThreadPart part;
  Buffer buffer;
  std::vector<std::uint32_t> order;
};

class Repeat {
 public:
  Repeat(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped)
      : runtime_(runtime),
        cell_(run.cell),
        run_(run),
        stopped_(stopped),
        counting_([this] { return runtime_.statistics(); }, run.cell, run.block_device),
        barrier_(static_cast<std::ptrdiff_t>(run.cell.threads)),
        parts_(parts_by_thread(run.cell, run.repeat)),
        workers_(run.cell.threads),
        results_(run.cell.threads) {
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
    attempts_.rethrow();
    return counting_.make_sample(results_, parts_);
  }

 private:
  // One step, then waits for the others.
  template <class Step>
  void phase(Step step) {
    attempts_.attempt(step);
    barrier_.arrive_and_wait();
  }

  template <class Step>
  void timed(Span& span, Step step) {
    attempts_.attempt([&] {
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
    ThreadResult& result = results_[self.index];
    std::optional<WarmPart> warm;
    const bool keeps_open = cell_.warm && cell_.open_files != 0;
    if (cell_.warm && !keeps_open) fill_cache(self, worker, warm);
    const bool reads = cell_.operation == MeasuredOperation::read || cell_.mixes();
    if (reads && cell_.interface == Interface::ferry && !cell_.warm)
      phase([&] { empty_device_cache(cell_, worker.part, self); });
    const Accesses files = make_accesses(cell_, worker.part, self);
    FileAccess& file = *files.front();
    const ProgramInput input{cell_,
                             files,
                             open_flags(cell_) | run_.create_flags,
                             worker.buffer.as<unsigned char>() + cell_.buffer_offset_bytes,
                             worker.part,
                             run_.seed_of(worker.part),
                             worker.order,
                             stopped_,
                             self.index};
    if (keeps_open) open_and_fill(input, leads);
    phase([&] { prepare_buffer(input); });
    if (leads) counting_.begin();
    barrier_.arrive_and_wait();

    const Usage before = thread_usage();
    open_on_all(input, result, leads);
    timed_phase(result.transfers, [&] { run_program(input, result.output); });
    if (cell_.flushes()) timed_phase(result.flush, [&] { file.flush(); });
    if (cell_.syncs()) timed_phase(result.sync, [&] { file.sync(); });
    timed_phase(result.close, [&] {
      if (cell_.program == Program::files) return;
      for (const auto& each : files)
        each->close();
    });
    if (!cell_.barriers) barrier_.arrive_and_wait();  // counted until all are done
    result.usage = thread_usage() - before;

    if (leads) counting_.end();
    barrier_.arrive_and_wait();
    phase([&] {
      if (cell_.operation == MeasuredOperation::read)
        verify_buffer(input, result.output.operations);
      verify_last_reads(input, result.output);
    });
  }

  // Outside the timed region, which begins when every thread has done it.
  void fill_cache(DeviceThread& self, Worker& worker, std::optional<WarmPart>& warm) {
    if (self.index == 0) counting_.begin_filling();
    barrier_.arrive_and_wait();
    phase([&] { warm.emplace(cell_, worker.part, self, worker.buffer.as<unsigned char>()); });
    if (self.index == 0) counting_.end_filling();
  }

  // The same for many files, which stay open: where a file has no version, opening it again would
  // drop its pages.
  void open_and_fill(const ProgramInput& input, bool leads) {
    if (leads) counting_.begin_filling();
    barrier_.arrive_and_wait();
    phase([&] { read_each_place(input); });
    if (leads) counting_.end_filling();
  }

  // A shared file is made by one thread before the others open it.
  void open_on_all(const ProgramInput& input, ThreadResult& result, bool leads) {
    FileAccess& file = input.file();
    if (cell_.program == Program::files) {  // which opens while it transfers
      timed_phase(result.open, [] {});
      return;
    }
    if (cell_.open_files != 0) {
      timed_phase(result.open, [&] {
        if (!cell_.warm) open_each(input);
      });
      return;
    }
    const int flags = open_flags(cell_) | run_.create_flags;
    if (run_.create_flags == 0 || cell_.file_per_thread || cell_.threads == 1) {
      timed_phase(result.open, [&] { file.open(flags); });
      return;
    }
    if (leads) timed(result.open, [&] { file.open(flags); });
    barrier_.arrive_and_wait();
    if (!leads) timed(result.open, [&] { file.open(open_flags(cell_)); });
    if (cell_.barriers) barrier_.arrive_and_wait();
  }

  Runtime& runtime_;
  const Cell& cell_;
  const CellRun& run_;
  const std::atomic<bool>& stopped_;
  Counting counting_;
  std::barrier<> barrier_;
  std::vector<unsigned> parts_;  // by thread
  std::vector<Worker> workers_;
  std::vector<ThreadResult> results_;
  Attempts attempts_;
};

}  // namespace

Sample run_cell(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped) {
  return Repeat(runtime, run, stopped).run();
}

}  // namespace ferry::bench
