// The measured kernel, embedded in this program: loaded and compiled by the CUDA driver, and
// launched.
#pragma once

#include <memory>

#include "backend/cuda/resources.hpp"
#include "harness/cuda/kernel_task.hpp"

namespace ferry::bench {

// Throws ferry::Error (ENOSYS) with what to do where this program was built without nvcc.
void check_kernel_is_built_in();

class MeasuredKernel {
 public:
  // Throws ferry::Error.
  explicit MeasuredKernel(std::shared_ptr<const cuda::PrimaryContext> context);
  ~MeasuredKernel();
  MeasuredKernel(const MeasuredKernel&) = delete;
  MeasuredKernel& operator=(const MeasuredKernel&) = delete;

  const std::shared_ptr<const cuda::PrimaryContext>& context() const { return context_; }

  // Runs so many groups of the task, whose address is the GPU's, and waits for them. Throws
  // ferry::Error.
  void run(const KernelTask* task, unsigned groups) const;

 private:
  const std::shared_ptr<const cuda::PrimaryContext> context_;
  const cuda::GpuStream stream_;
  cuda::ModuleHandle module_ = nullptr;
  cuda::FunctionHandle function_ = nullptr;
};

}  // namespace ferry::bench
