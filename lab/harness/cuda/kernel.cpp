#include "harness/cuda/kernel.hpp"

#include <cerrno>
#include <utility>

#if defined(FERRY_KERNEL_IMAGE)
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".global ferry_kernel_image\n"
    ".hidden ferry_kernel_image\n"
    "ferry_kernel_image:\n"
    ".incbin \"" FERRY_KERNEL_IMAGE
    "\"\n"
    ".popsection\n");
extern "C" const unsigned char ferry_kernel_image[];
#endif

namespace ferry::bench {
namespace {

constexpr unsigned group_threads = 32;

const void* image() {
#if defined(FERRY_KERNEL_IMAGE)
  return ferry_kernel_image;
#else
  return nullptr;
#endif
}

}  // namespace

void check_kernel_is_built_in() {
  if (image() != nullptr) return;
  throw Error(ENOSYS,
              "this ferry-bench has no kernels, because no nvcc was there when it was built; put "
              "CUDA's nvcc on the PATH and build again (./ferry), or use --device cpu");
}

MeasuredKernel::MeasuredKernel(std::shared_ptr<const cuda::PrimaryContext> context)
    : context_(std::move(context)), stream_(context_) {
  const cuda::CurrentContext current(*context_);
  const cuda::Driver& driver = context_->driver();
  const cuda::Result loaded = driver.cuModuleLoadData(&module_, image());
  if (loaded == cuda::Result::unsupported_ptx_version) {
    throw Error(ENOTSUP,
                "the kernels of this ferry-bench are newer than the CUDA driver; update NVIDIA's "
                "driver, or build with an older nvcc");
  }
  driver.check(loaded, "cuModuleLoadData");
  const cuda::Result found = driver.cuModuleGetFunction(&function_, module_, "ferry_bench_kernel");
  if (found != cuda::Result::success) driver.cuModuleUnload(module_);
  driver.check(found, "cuModuleGetFunction");
}

MeasuredKernel::~MeasuredKernel() {
  cuda::in_context(*context_, [&](const cuda::Driver& driver) { driver.cuModuleUnload(module_); });
}

void MeasuredKernel::run(const KernelTask* task, unsigned groups) const {
  const cuda::CurrentContext current(*context_);
  const cuda::Driver& driver = context_->driver();
  void* parameters[] = {&task};
  driver.check(driver.cuLaunchKernel(function_, groups, 1, 1, group_threads, 1, 1, 0,
                                     stream_.handle(), parameters, nullptr),
               "cuLaunchKernel");
  driver.check(driver.cuStreamSynchronize(stream_.handle()), "the measured kernel");
}

}  // namespace ferry::bench
