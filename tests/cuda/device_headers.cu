// Compiles every device header as CUDA, and instantiates the file calls in a kernel. It is not run;
// the `cuda` device's tests check behaviour.
#include <ferry/device.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/cuda_groups.hpp>
#include <ferry/device/file_calls.hpp>
#include <ferry/device/file_position.hpp>
#include <ferry/device/group.hpp>
#include <ferry/device/platform.hpp>
#include <ferry/device/requester.hpp>
#include <ferry/device/ring.hpp>
#include <ferry/device/service.hpp>
#include <ferry/device/waiting.hpp>

__global__ void make_every_call(const ferry::device::Context* context, char* buffer,
                                std::int64_t* results) {
  const unsigned group = blockIdx.x * blockDim.x + threadIdx.x;
  ferry::device::FileCalls files(*context, ferry::device::ThreadGroup{}, group);
  ferry::device::FileStatus status{};
  ferry::device::cache::PinnedView view;
  const int file = files.open("/data/input", 0);
  ferry::device::IoVector piece{buffer, 64};
  ferry::device::Pending pending = files.pread_async(file, buffer, 64, 0);
  results[group] = files.wait(pending) + files.pread(file, buffer, 64, 0) +
                   files.pwrite(file, buffer, 64, 0) + files.preadv(file, &piece, 1, 0) +
                   files.pwritev(file, &piece, 1, 0) + files.read(file, buffer, 64) +
                   files.write(file, buffer, 64) + files.fsync(file) + files.fdatasync(file) +
                   files.ftruncate(file, 0) + files.stat("/data/input", &status) +
                   files.fstat(file, &status) + files.unlink("/data/input") + files.ping() +
                   files.prefetch(file, 0, 64) + files.hold(file, 0, 64, view) + files.flush(file) +
                   files.close(file);
  files.release(view);
  pending = files.pwrite_async(file, buffer, 64, 0);
  files.drain();
}

// A block that serves cached calls for the others.
__global__ void serve(const ferry::device::Context* context, unsigned service, unsigned group) {
  ferry::device::ServiceLoop(*context, ferry::device::BlockGroup{}, service, group).run();
}
