// Gathers rows of a table into a file on a GPU: a group is a warp, whose lanes each read a row. No
// GPU has run this yet (docs/internals/gpu.md).
//
//   nvcc -std=c++20 -arch=sm_90 -Iinclude examples/gather/gather.cu build/release/libferry.a
//   -luring
//        -o gather-gpu
//   ./gather-gpu [--groups N] [--cache-bytes BYTES] ROW-LIST TABLE OUTPUT
#include "../common/gpu_memory.hpp"
#include "gather.hpp"
#include "gather_command.hpp"

namespace {

namespace examples = ferry::examples;
using ferry::device::Context;
using ferry::device::FileCalls;
using ferry::device::WarpGroup;

constexpr unsigned warps_per_block = 4;

FERRY_KERNEL open_files(const Context* context, examples::GatherJob* job) {
  FileCalls files(*context, WarpGroup{}, WarpGroup::index_in_grid());
  examples::open_files(files, WarpGroup{}, *job);
}

FERRY_KERNEL gather_rows(const Context* context, examples::GatherJob* job) {
  const std::uint32_t group = WarpGroup::index_in_grid();
  FileCalls files(*context, WarpGroup{}, group);
  examples::gather_rows(files, WarpGroup{}, group, gridDim.x * warps_per_block, *job);
}

FERRY_KERNEL close_files(const Context* context, examples::GatherJob* job) {
  FileCalls files(*context, WarpGroup{}, WarpGroup::index_in_grid());
  examples::close_files(files, WarpGroup{}, *job);
}

void gather(const examples::GatherRequest& request) {
  const unsigned blocks =
      ((request.groups != 0 ? request.groups : 1024) + warps_per_block - 1) / warps_per_block;
  ferry::GpuOptions gpu;
  gpu.groups = blocks * warps_per_block;
  const std::uint64_t buffer_bytes = std::uint64_t{gpu.groups} * 32 * examples::row_bytes;
  ferry::RuntimeOptions options;
  options.cache_bytes = request.cache_bytes;
  options.page_bytes = examples::row_bytes;
  options.arena_bytes = buffer_bytes + request.rows.size() * sizeof(request.rows[0]) + (1 << 20);
  ferry::GpuRuntime runtime(options, gpu);
  const ferry::Buffer table_path =
      examples::copy_to_gpu(runtime, request.table_path.c_str(), request.table_path.size() + 1);
  const ferry::Buffer output_path =
      examples::copy_to_gpu(runtime, request.output_path.c_str(), request.output_path.size() + 1);
  const ferry::Buffer rows =
      examples::copy_to_gpu(runtime, request.rows.data(), request.rows.size());
  const ferry::Buffer buffers = runtime.allocate(buffer_bytes);
  examples::GatherJob job;
  job.table_path = table_path.as<char>();
  job.output_path = output_path.as<char>();
  job.create_flags = examples::create_flags;
  job.rows = rows.as<std::uint64_t>();
  job.row_count = request.rows.size();
  job.buffers = buffers.as<char>();
  const ferry::Buffer shared = examples::copy_to_gpu(runtime, &job, 1);
  auto* on_gpu = shared.as<examples::GatherJob>();
  open_files<<<1, 32>>>(runtime.context(), on_gpu);
  examples::launched("open_files");
  gather_rows<<<blocks, 32 * warps_per_block>>>(runtime.context(), on_gpu);
  examples::launched("gather_rows");
  const int unwritten = ferry::gpu::write_back(runtime);  // waits for the kernels before
  close_files<<<1, 32>>>(runtime.context(), on_gpu);
  examples::launched("close_files");
  examples::check_job(examples::copy_from_gpu<examples::GatherJob>(shared), request);
  examples::check_call(unwritten, request.output_path);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::gather_command("gather-gpu", argc, argv, gather);
}
