// Counts the occurrences of a string in a file, on a GPU: a group is a warp. No GPU has run this
// yet (docs/internals/gpu.md).
//
//   nvcc -std=c++20 -arch=sm_90 -Iinclude examples/search/search.cu build/release/libferry.a
//   -luring
//        -o search-gpu
//   ./search-gpu [--groups N] STRING FILE
#include "../common/gpu_memory.hpp"
#include "search.hpp"
#include "search_command.hpp"

namespace {

namespace examples = ferry::examples;
using ferry::device::Context;
using ferry::device::FileCalls;
using ferry::device::WarpGroup;

constexpr unsigned warps_per_block = 4;

FERRY_KERNEL open_text(const Context* context, examples::SearchJob* job) {
  FileCalls files(*context, WarpGroup{}, WarpGroup::index_in_grid());
  examples::open_text(files, WarpGroup{}, *job);
}

FERRY_KERNEL search_pieces(const Context* context, examples::SearchJob* job) {
  const std::uint32_t group = WarpGroup::index_in_grid();
  FileCalls files(*context, WarpGroup{}, group);
  examples::search_pieces(files, WarpGroup{}, group, *job);
}

FERRY_KERNEL close_text(const Context* context, examples::SearchJob* job) {
  FileCalls files(*context, WarpGroup{}, WarpGroup::index_in_grid());
  examples::close_text(files, *job);
}

std::uint64_t count_places(const examples::SearchRequest& request) {
  const unsigned blocks =
      ((request.groups != 0 ? request.groups : 1024) + warps_per_block - 1) / warps_per_block;
  examples::SearchJob job;
  job.wanted_bytes = request.wanted.size();
  job.piece_bytes = 256 << 10;
  ferry::GpuOptions gpu;
  gpu.groups = blocks * warps_per_block;
  const std::uint64_t buffer_bytes = gpu.groups * examples::search_buffer_bytes(job);
  ferry::RuntimeOptions options;
  options.arena_bytes = buffer_bytes + (1 << 20);
  ferry::GpuRuntime runtime(options, gpu);
  const ferry::Buffer path =
      examples::copy_to_gpu(runtime, request.path.c_str(), request.path.size() + 1);
  const ferry::Buffer wanted =
      examples::copy_to_gpu(runtime, request.wanted.data(), request.wanted.size());
  const ferry::Buffer buffers = runtime.allocate(buffer_bytes);
  job.path = path.as<char>();
  job.wanted = wanted.as<char>();
  job.buffers = buffers.as<char>();
  const ferry::Buffer shared = examples::copy_to_gpu(runtime, &job, 1);
  open_text<<<1, 32>>>(runtime.context(), shared.as<examples::SearchJob>());
  examples::launched("open_text");
  search_pieces<<<blocks, 32 * warps_per_block>>>(runtime.context(),
                                                  shared.as<examples::SearchJob>());
  examples::launched("search_pieces");
  close_text<<<1, 32>>>(runtime.context(), shared.as<examples::SearchJob>());
  examples::launched("close_text");
  return examples::places_of(examples::copy_from_gpu<examples::SearchJob>(shared), request);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::search_command("search-gpu", argc, argv, count_places);
}
