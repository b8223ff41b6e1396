// The groups of a cell's threads in GPU memory, and the launches of their steps.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <ferry/gpu.hpp>

#include "harness/cuda/gpu_array.hpp"
#include "harness/cuda/kernel.hpp"
#include "harness/cuda/kernel_task.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

class KernelGroups {
 public:
  // One group for each part, and for each of its places in a buffer of the GPU. Functions throw
  // ferry::Error.
  KernelGroups(GpuRuntime& runtime, const MeasuredKernel& kernel, const Cell& cell,
               const std::vector<ThreadPart>& parts, std::uint64_t buffer_bytes);

  std::size_t size() const { return groups_.size(); }
  // As the last launch left it. What is changed here is seen by the next one.
  KernelGroup& operator[](std::size_t index) { return groups_[index]; }
  const KernelGroup& operator[](std::size_t index) const { return groups_[index]; }

  // What launches do beside their steps; the cell has set the rest.
  KernelTask task;

  // Runs the steps (bits: bit_of()) for all groups, or for `count` of them from `first` on.
  void launch(std::initializer_list<KernelStep> steps);
  void launch(std::uint32_t step_bits, std::size_t first, std::size_t count);

  // Throws what the first group that failed has met: ferry::Error, or ContentsError for a wrong
  // byte.
  void check() const;

  void put_buffer(std::size_t group, const std::vector<unsigned char>& from) const;
  void get_buffer(std::size_t group, std::vector<unsigned char>& to) const;

 private:
  const Cell& cell_;
  const MeasuredKernel& kernel_;
  std::vector<KernelGroup> groups_;
  std::vector<Buffer> buffers_;
  const GpuArray<char> paths_;
  const GpuArray<KernelGroup> on_gpu_;
  const GpuArray<KernelTask> task_on_gpu_;
};

}  // namespace ferry::bench
