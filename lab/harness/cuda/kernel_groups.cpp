#include "harness/cuda/kernel_groups.hpp"

#include <string>

#include "harness/file_access.hpp"
#include "harness/layout.hpp"
#include "harness/programs.hpp"

namespace ferry::bench {
namespace {

// One behind the other, each with its zero.
std::vector<char> paths_of(const Cell& cell, const std::vector<ThreadPart>& parts) {
  std::vector<char> all;
  for (const ThreadPart& part : parts) {
    const std::string path = file_path(cell, part.file);
    all.insert(all.end(), path.c_str(), path.c_str() + path.size() + 1);
  }
  return all;
}

const char* doing(KernelStep step) {
  switch (step) {
    case KernelStep::flush:
      return "flushing ";
    case KernelStep::sync:
      return "syncing ";
    case KernelStep::close:
      return "closing ";
    case KernelStep::evict:
      return "writing back ";
    default:
      return "opening ";
  }
}

}  // namespace

KernelGroups::KernelGroups(GpuRuntime& runtime, const MeasuredKernel& kernel, const Cell& cell,
                           const std::vector<ThreadPart>& parts, std::uint64_t buffer_bytes)
    : task{},
      cell_(cell),
      kernel_(kernel),
      groups_(parts.size()),
      paths_(kernel.context(), paths_of(cell, parts)),
      on_gpu_(kernel.context(), parts.size()),
      task_on_gpu_(kernel.context(), 1) {
  const char* path = paths_.data();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    buffers_.push_back(runtime.allocate(cell.buffer_offset_bytes + buffer_bytes));
    groups_[i].part = parts[i];
    groups_[i].path = path;
    groups_[i].buffer = buffers_[i].as<unsigned char>() + cell.buffer_offset_bytes;
    path += file_path(cell, parts[i].file).size() + 1;
  }
  task.context = runtime.context();
  task.groups = on_gpu_.data();
  task.placement = cell.placement;
  task.writes = cell.operation == MeasuredOperation::write;
  task.checks = cell.check;
  task.drops_pages = cell.rewrite;
  task.open_flags = open_flags(cell);
  task.queue_depth = cell.queue_depth;
  task.call_bytes = cell.call_bytes();
  task.calls = cell.calls_per_thread();
  task.latency_mask = latency_stride(cell) - 1;
  task.deadline_ns = cell.deadline_ms * 1'000'000;
}

void KernelGroups::launch(std::initializer_list<KernelStep> steps) {
  std::uint32_t bits = 0;
  for (const KernelStep step : steps)
    bits |= bit_of(step);
  launch(bits, 0, groups_.size());
}

void KernelGroups::launch(std::uint32_t step_bits, std::size_t first, std::size_t count) {
  task.steps = step_bits;
  task.first_group = static_cast<std::uint32_t>(first);
  task_on_gpu_.put(std::vector{task});
  on_gpu_.put(groups_);
  kernel_.run(task_on_gpu_.data(), static_cast<unsigned>(count));
  on_gpu_.get(groups_);
}

void KernelGroups::check() const {
  for (const KernelGroup& group : groups_) {
    const KernelFault& fault = group.fault;
    if (fault.kind == KernelFault::Kind::none) continue;
    const std::string path = file_path(cell_, group.part.file);
    if (fault.kind == KernelFault::Kind::wrong_byte)
      report_wrong_byte(path, fault.offset, cell_.interface);
    const bool moves = fault.step == KernelStep::transfer || fault.step == KernelStep::warm ||
                       fault.step == KernelStep::read_back;
    if (moves) report_call(cell_, cell_.operation, group.part, fault.result, fault.offset);
    throw Error(static_cast<int>(-fault.result), doing(fault.step) + path);
  }
}

void KernelGroups::put_buffer(std::size_t group, const std::vector<unsigned char>& from) const {
  cuda::copy_now(*kernel_.context(), Direction::read, const_cast<unsigned char*>(from.data()),
                 reinterpret_cast<cuda::DevicePointer>(groups_[group].buffer), from.size());
}

void KernelGroups::get_buffer(std::size_t group, std::vector<unsigned char>& to) const {
  cuda::copy_now(*kernel_.context(), Direction::write, to.data(),
                 reinterpret_cast<cuda::DevicePointer>(groups_[group].buffer), to.size());
}

}  // namespace ferry::bench
