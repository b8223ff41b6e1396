#include "harness/cell_run.hpp"

#include <algorithm>
#include <barrier>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "harness/attempts.hpp"
#include "harness/file_access.hpp"
#include "harness/layout.hpp"
#include "harness/programs.hpp"
#include "harness/verification.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

struct Worker {
  ThreadPart part;
  Buffer buffer;
  std::vector<std::uint32_t> order;
};

// One of the cells that run together, on threads of its own.
struct Job {
  Job(Runtime& runtime, const CellRun& its_run, unsigned its_number, unsigned its_first_thread)
      : run(its_run),
        cell(its_run.cell),
        number(its_number),
        first_thread(its_first_thread),
        barrier(static_cast<std::ptrdiff_t>(cell.threads)),
        parts(parts_by_thread(cell, its_run.repeat)),
        workers(cell.threads),
        results(cell.threads) {
    for (unsigned i = 0; i < cell.threads; ++i) {
      workers[i].part = part_of(cell, parts[i]);
      workers[i].buffer = runtime.allocate(cell.buffer_offset_bytes + cell.buffer_bytes());
      workers[i].order = make_order(cell, i);
    }
  }

  const CellRun& run;
  const Cell& cell;
  const unsigned number;
  const unsigned first_thread;
  std::barrier<> barrier;
  std::vector<unsigned> parts;  // by thread
  std::vector<Worker> workers;
  std::vector<ThreadResult> results;
};

std::ptrdiff_t threads_of(const std::vector<CellRun>& runs) {
  std::ptrdiff_t threads = 0;
  for (const CellRun& run : runs)
    threads += run.cell.threads;
  return threads;
}

// Whose URI says that the network is to be counted.
const Cell& counted_cell(const std::vector<CellRun>& runs) {
  const auto remote = std::find_if(runs.begin(), runs.end(),
                                   [](const CellRun& run) { return is_uri(run.cell.path); });
  return (remote == runs.end() ? runs.front() : *remote).cell;
}

// That of all jobs; empty where they have several.
std::string shared_block_device(const std::vector<CellRun>& runs) {
  const std::string& first = runs.front().block_device;
  const bool same = std::all_of(runs.begin(), runs.end(),
                                [&](const CellRun& run) { return run.block_device == first; });
  return same ? first : "";
}

class Repeat {
 public:
  Repeat(Runtime& runtime, const std::vector<CellRun>& runs, const std::atomic<bool>& stopped)
      : runtime_(runtime),
        stopped_(stopped),
        counting_([this] { return runtime_.statistics(); }, counted_cell(runs),
                  shared_block_device(runs)),
        barrier_(threads_of(runs)) {
    unsigned threads = 0;
    for (const CellRun& run : runs) {
      jobs_.emplace_back(runtime, run, static_cast<unsigned>(jobs_.size()), threads);
      threads += run.cell.threads;
    }
  }

  Sample run_cell() {
    run();
    attempts_.rethrow();
    return counting_.make_sample(jobs_.front().results, jobs_.front().parts);
  }

  GroupSample run_group() {
    run();
    try {
      attempts_.rethrow();
    } catch (...) {
      throw JobFailure{attempts_.failed_job(), std::current_exception()};
    }
    GroupSample sample;
    sample.begin_ns = begin_ns_;
    for (const Job& job : jobs_)
      sample.jobs.push_back(combine(job.cell, job.results, job.parts));
    sample.all = combine(sample.jobs);
    counting_.add_to(sample.all);
    return sample;
  }

 private:
  void run() {
    runtime_.run([this](DeviceThread& self) {
      for (Job& job : jobs_)
        if (self.index - job.first_thread < job.cell.threads)  // unsigned: not below it either
          on_thread(job, self);
    });
  }

  // One step, then waits for the others.
  template <class Step>
  void phase(Job& job, Step step) {
    attempts_.attempt(step, job.number);
    job.barrier.arrive_and_wait();
  }
  template <class Step>
  void phase_of_all(Job& job, Step step) {
    attempts_.attempt(step, job.number);
    barrier_.arrive_and_wait();
  }

  template <class Step>
  void timed(Job& job, Span& span, Step step) {
    attempts_.attempt(
        [&] {
          span.begin_ns = now_ns();
          step();
          span.end_ns = now_ns();
        },
        job.number);
  }

  template <class Step>
  void timed_phase(Job& job, Span& span, Step step) {
    timed(job, span, step);
    if (job.cell.barriers) job.barrier.arrive_and_wait();
  }

  void on_thread(Job& job, DeviceThread& self) {
    const Cell& cell = job.cell;
    const unsigned index = self.index - job.first_thread;
    const bool leads = index == 0;  // its job
    const bool counts = self.index == 0;
    Worker& worker = job.workers[index];
    ThreadResult& result = job.results[index];
    std::optional<WarmPart> warm;
    const bool keeps_open = cell.warm && cell.open_files != 0;
    if (cell.warm && !keeps_open) fill_cache(job, self, worker, warm);
    const bool reads = cell.operation == MeasuredOperation::read || cell.mixes();
    if (reads && cell.interface == Interface::ferry && !cell.warm)
      phase(job, [&] { empty_device_cache(cell, worker.part, self); });
    const Accesses files = make_accesses(cell, worker.part, self);
    FileAccess& file = *files.front();
    const ProgramInput input{cell,
                             files,
                             open_flags(cell) | job.run.create_flags,
                             worker.buffer.as<unsigned char>() + cell.buffer_offset_bytes,
                             worker.part,
                             job.run.seed_of(worker.part),
                             worker.order,
                             stopped_,
                             index,
                             &attempts_.failed()};
    if (keeps_open) open_and_fill(job, input, leads);
    phase_of_all(job, [&] { prepare_buffer(input); });
    if (counts) {
      counting_.begin();
      begin_ns_ = now_ns();
    }
    barrier_.arrive_and_wait();

    const Usage before = thread_usage();
    if (cell.start_delay_ms != 0)
      phase(job, [&] { wait_until(input, begin_ns_ + cell.start_delay_ms * 1'000'000); });
    open_on_all(job, input, result, leads);
    timed_phase(job, result.transfers, [&] { run_program(input, result.output); });
    if (cell.flushes()) timed_phase(job, result.flush, [&] { file.flush(); });
    if (cell.syncs()) timed_phase(job, result.sync, [&] { file.sync(); });
    timed_phase(job, result.close, [&] {
      if (cell.program == Program::files) return;
      for (const auto& each : files)
        each->close();
    });
    // Counted until all are done.
    if (!cell.barriers || jobs_.size() > 1) barrier_.arrive_and_wait();
    result.usage = thread_usage() - before;

    if (counts) counting_.end();
    barrier_.arrive_and_wait();
    phase(job, [&] {
      if (cell.operation == MeasuredOperation::read) verify_buffer(input, result.output.operations);
      verify_last_reads(input, result.output);
    });
  }

  // Outside the timed region, which begins when every thread has done it.
  void fill_cache(Job& job, DeviceThread& self, Worker& worker, std::optional<WarmPart>& warm) {
    if (self.index == 0) counting_.begin_filling();
    job.barrier.arrive_and_wait();
    phase(job,
          [&] { warm.emplace(job.cell, worker.part, self, worker.buffer.as<unsigned char>()); });
    if (self.index == 0) counting_.end_filling();
  }

  // The same for many files, which stay open: where a file has no version, opening it again would
  // drop its pages.
  void open_and_fill(Job& job, const ProgramInput& input, bool leads) {
    if (leads) counting_.begin_filling();
    job.barrier.arrive_and_wait();
    phase(job, [&] { read_each_place(input); });
    if (leads) counting_.end_filling();
  }

  // A shared file is made by one thread before the others open it.
  void open_on_all(Job& job, const ProgramInput& input, ThreadResult& result, bool leads) {
    const Cell& cell = job.cell;
    FileAccess& file = input.file();
    if (cell.program == Program::files) {  // which opens while it transfers
      timed_phase(job, result.open, [] {});
      return;
    }
    if (cell.open_files != 0) {
      timed_phase(job, result.open, [&] {
        if (!cell.warm) open_each(input);
      });
      return;
    }
    const int flags = open_flags(cell) | job.run.create_flags;
    if (job.run.create_flags == 0 || cell.file_per_thread || cell.threads == 1) {
      timed_phase(job, result.open, [&] { file.open(flags); });
      return;
    }
    if (leads) timed(job, result.open, [&] { file.open(flags); });
    job.barrier.arrive_and_wait();
    if (!leads) timed(job, result.open, [&] { file.open(open_flags(cell)); });
    if (cell.barriers) job.barrier.arrive_and_wait();
  }

  Runtime& runtime_;
  const std::atomic<bool>& stopped_;
  Counting counting_;
  std::barrier<> barrier_;  // of all jobs' threads
  std::deque<Job> jobs_;
  std::uint64_t begin_ns_ = 0;
  Attempts attempts_;
};

}  // namespace

Sample run_cell(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped) {
  const std::vector<CellRun> runs{run};
  return Repeat(runtime, runs, stopped).run_cell();
}

GroupSample run_group(Runtime& runtime, const std::vector<CellRun>& runs,
                      const std::atomic<bool>& stopped) {
  return Repeat(runtime, runs, stopped).run_group();
}

}  // namespace ferry::bench
