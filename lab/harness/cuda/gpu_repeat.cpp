#include "harness/cuda/gpu_repeat.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <initializer_list>
#include <memory>
#include <vector>

#include <fcntl.h>

#include "harness/cuda/kernel_groups.hpp"
#include "harness/device_cache.hpp"
#include "harness/file_access.hpp"
#include "harness/layout.hpp"
#include "harness/sample.hpp"
#include "harness/verification.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

void check_running(const std::atomic<bool>& stopped) {
  if (stopped.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
}

std::vector<ThreadPart> parts_of(const Cell& cell, const std::vector<unsigned>& numbers) {
  std::vector<ThreadPart> parts;
  parts.reserve(numbers.size());
  for (const unsigned number : numbers)
    parts.push_back(part_of(cell, number));
  return parts;
}

class GpuRepeat {
 public:
  GpuRepeat(GpuRuntime& runtime, const MeasuredKernel& kernel, const CellRun& run,
            const std::atomic<bool>& stopped)
      : cell_(run.cell),
        run_(run),
        stopped_(stopped),
        counting_([&runtime] { return runtime.statistics(); }, run.cell, run.block_device),
        numbers_(parts_by_thread(run.cell, run.repeat)),
        groups_(runtime, kernel, run.cell, parts_of(run.cell, numbers_), run.cell.buffer_bytes()),
        orders_(kernel.context(), cell_.threads * cell_.calls_per_thread()),
        pending_(kernel.context(), cell_.threads * cell_.queue_depth),
        began_ns_(kernel.context(), cell_.threads * cell_.queue_depth),
        latencies_(kernel.context(), std::vector<LatencyHistogram>(cell_.threads)) {
    std::vector<std::uint32_t> orders;
    for (unsigned i = 0; i < cell_.threads; ++i) {
      const std::vector<std::uint32_t> order = make_order(cell_, i);
      KernelGroup& group = groups_[i];
      group.order = orders_.data() + orders.size();
      group.pending = pending_.data() + i * cell_.queue_depth;
      group.began_ns = began_ns_.data() + i * cell_.queue_depth;
      group.latencies = latencies_.data() + i;
      group.pattern_seed = run_.seed_of(group.part);
      orders.insert(orders.end(), order.begin(), order.end());
    }
    orders_.put(orders);
  }

  Sample run() {
    try {
      make_ready();
      counting_.begin();
      const Usage before = thread_usage();
      do_timed_steps();
      const Usage used = thread_usage() - before;
      counting_.end();
      close_files();
      groups_.check();
      if (cell_.operation == MeasuredOperation::read) verify_buffers();
      std::vector<ThreadResult> results = make_results();
      results.front().usage = used;
      return counting_.make_sample(results, numbers_);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      try {
        close_files();
      } catch (const Error&) {
        // The GPU is lost, and its files with the runtime.
      }
      std::rethrow_exception(error);
    }
  }

 private:
  // Everything that comes before the timed region.
  void make_ready() {
    if (cell_.operation == MeasuredOperation::read || cell_.warm) empty_cache();
    if (cell_.warm) fill_cache();
    groups_.launch({KernelStep::prepare});
    groups_.check();
    check_running(stopped_);
  }

  void empty_cache() {
    const int flags = groups_.task.open_flags;
    // A storage's client drops what it keeps of a file that is opened so (storage/ceph/call.cpp).
    if (cell_.cold && is_uri(cell_.path)) groups_.task.open_flags |= O_DIRECT;
    groups_.launch({KernelStep::evict});
    groups_.check();
    groups_.task.open_flags = flags;
  }

  void fill_cache() {
    for (unsigned i = 0; i < file_count(cell_); ++i)
      wait_for_version(file_path(cell_, i));
    counting_.begin_filling();
    groups_.launch({KernelStep::warm});
    counting_.end_filling();
    groups_.check();
  }

  void do_timed_steps() {
    const int flags = groups_.task.open_flags;
    groups_.task.open_flags |= run_.create_flags;
    // A shared file is made by one group before the others open it.
    if (run_.create_flags != 0 && !cell_.file_per_thread && cell_.threads > 1) {
      groups_.launch(bit_of(KernelStep::open), 0, 1);
      groups_.task.open_flags = flags;
      groups_.launch(bit_of(KernelStep::open), 1, groups_.size() - 1);
      launch_steps({KernelStep::transfer, KernelStep::flush, KernelStep::sync, KernelStep::close});
    } else {
      launch_steps({KernelStep::open, KernelStep::transfer, KernelStep::flush, KernelStep::sync,
                    KernelStep::close});
    }
    groups_.task.open_flags = flags;
  }

  // Those that the cell wants of them: with barriers one after the other.
  void launch_steps(std::initializer_list<KernelStep> steps) {
    std::uint32_t together = 0;
    for (const KernelStep step : steps) {
      if (step == KernelStep::flush && !cell_.flushes()) continue;
      if (step == KernelStep::sync && !cell_.syncs()) continue;
      if (cell_.barriers) groups_.launch({step});
      together |= bit_of(step);
    }
    if (!cell_.barriers) groups_.launch(together, 0, groups_.size());
  }

  // What is open still.
  void close_files() {
    bool open = false;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      open = open || groups_[i].file > 0 || groups_[i].warm_file > 0;
    if (open) groups_.launch({KernelStep::close, KernelStep::cool});
  }

  // What is left in the buffers after the timed reads.
  void verify_buffers() {
    const Accesses no_files;
    std::vector<unsigned char> found(cell_.buffer_bytes());
    for (unsigned i = 0; i < cell_.threads; ++i) {
      const std::vector<std::uint32_t> order = make_order(cell_, i);
      groups_.get_buffer(i, found);
      const ProgramInput input{cell_,        no_files,        groups_.task.open_flags,
                               found.data(), groups_[i].part, groups_[i].pattern_seed,
                               order,        stopped_};
      verify_buffer(input, groups_[i].operations);
    }
  }

  std::vector<ThreadResult> make_results() const {
    std::vector<LatencyHistogram> latencies(cell_.threads);
    latencies_.get(latencies);
    std::vector<ThreadResult> results(cell_.threads);
    for (unsigned i = 0; i < cell_.threads; ++i) {
      const KernelGroup& group = groups_[i];
      ThreadResult& result = results[i];
      const auto of = [&](KernelStep step) { return group.spans[static_cast<unsigned>(step)]; };
      result.open = of(KernelStep::open);
      result.transfers = of(KernelStep::transfer);
      result.flush = of(KernelStep::flush);
      result.sync = of(KernelStep::sync);
      result.close = of(KernelStep::close);
      result.output.operations = group.operations;
      result.output.deadline_reached = group.deadline_reached;
      result.output.latencies = latencies[i];
    }
    return results;
  }

  const Cell& cell_;
  const CellRun& run_;
  const std::atomic<bool>& stopped_;
  Counting counting_;
  const std::vector<unsigned> numbers_;  // of the parts, by thread
  KernelGroups groups_;
  const GpuArray<std::uint32_t> orders_;
  const GpuArray<device::Pending> pending_;
  const GpuArray<std::uint64_t> began_ns_;
  const GpuArray<LatencyHistogram> latencies_;
};

// How many calls of each thread are compared after one launch: as many as 1 MiB holds for all
// threads together, at least one.
std::uint64_t calls_at_once(const Cell& cell) {
  constexpr std::uint64_t bytes = std::uint64_t{1} << 20;
  return std::clamp<std::uint64_t>(bytes / (cell.call_bytes() * cell.threads), 1,
                                   cell.calls_per_thread());
}

}  // namespace

Sample run_on_gpu(GpuRuntime& runtime, const MeasuredKernel& kernel, const CellRun& run,
                  const std::atomic<bool>& stopped) {
  return GpuRepeat(runtime, kernel, run, stopped).run();
}

void verify_reads_on_gpu(GpuRuntime& runtime, const MeasuredKernel& kernel, const Cell& cell,
                         const std::atomic<bool>& stopped) {
  const std::uint64_t at_once = calls_at_once(cell);
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<ThreadPart> parts;
  std::vector<std::unique_ptr<Expected>> contents;
  for (unsigned i = 0; i < cell.threads; ++i) {
    parts.push_back(part_of(cell, i));
    contents.push_back(std::make_unique<Expected>(cell, parts[i].file));
  }
  KernelGroups groups(runtime, kernel, cell, parts, at_once * bytes);
  for (std::uint64_t first = 0; first < cell.calls_per_thread(); first += at_once) {
    check_running(stopped);
    groups.task.first_call = first;
    groups.task.calls = std::min(at_once, cell.calls_per_thread() - first);
    std::vector<unsigned char> expected(groups.task.calls * bytes);
    std::vector<unsigned char> found(expected.size());
    const auto expect = [&](unsigned thread) {
      for (std::uint64_t i = 0; i < groups.task.calls; ++i)
        contents[thread]->get(&expected[i * bytes], bytes, parts[thread].offset_of(first + i));
    };
    for (unsigned i = 0; i < cell.threads; ++i) {
      expect(i);
      for (std::size_t at = 0; at < expected.size(); ++at)
        found[at] = static_cast<unsigned char>(~expected[at]);
      groups.put_buffer(i, found);
    }
    groups.launch({KernelStep::read_back});
    groups.check();
    for (unsigned i = 0; i < cell.threads; ++i) {
      expect(i);
      groups.get_buffer(i, found);
      for (std::uint64_t call = 0; call < groups.task.calls; ++call) {
        contents[i]->compare(&found[call * bytes], &expected[call * bytes], bytes,
                             parts[i].offset_of(first + call));
      }
    }
  }
}

}  // namespace ferry::bench
