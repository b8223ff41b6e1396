// The promises for the `cuda` device, each compared with the GPU's own limit: cached reads with
// copies in its memory, rows with rows of an array, bulk transfers with pinned copies, misses per
// second, and `automatic` with each placement; also the crossover of pulling and copy engines. No
// GPU has run this yet (docs/internals/gpu.md).
//
//   nvcc -std=c++20 -O3 -arch=native -Iinclude -Isrc
//        lab/micro/cuda_device.cu build/release/libferry.a -luring -o cuda-device
//   ./cuda-device DIRECTORY [MEASURE]      (with space for 2 GiB; JSON lines for lab/micro/run)
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/bulk.hpp>
#include <ferry/cuda.hpp>

#include "benchmark.hpp"

namespace {

namespace device = ferry::device;
namespace gpu = ferry::gpu;
using device::Context;
using device::FileCalls;
using device::Placement;
using device::WarpGroup;
using ferry::benchmarks::measure_figure;
using ferry::benchmarks::measure_pairs;

constexpr std::uint64_t file_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t page_bytes = 64 << 10;
constexpr std::uint64_t row_bytes = 4096;
constexpr std::uint64_t spread = 7919;  // a prime: every piece once, in no order
constexpr std::uint64_t buffers_max = std::uint64_t{4} << 30;
constexpr unsigned threads = 256;
constexpr unsigned warps_per_block = threads / 32;
constexpr int rate_count = 20;

// Seconds that `launch` keeps the GPU busy.
template <class Launch>
double seconds_of(Launch launch) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  gpu::check(cudaEventCreate(&begin), "cudaEventCreate");
  gpu::check(cudaEventCreate(&end), "cudaEventCreate");
  gpu::check(cudaEventRecord(begin), "cudaEventRecord");
  launch();
  gpu::check(cudaGetLastError(), "the launch");
  gpu::check(cudaEventRecord(end), "cudaEventRecord");
  gpu::check(cudaEventSynchronize(end), "the kernel");
  float milliseconds = 0;
  gpu::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / 1000;
}

// Each warp reads pieces of the file in turn, from its own number on, into a buffer of its own.
FERRY_KERNEL read_pieces(const Context* context, int file, char* buffers, std::uint64_t piece_bytes,
                         std::uint64_t count, std::uint64_t spread, Placement placement,
                         unsigned long long* failures) {
  const std::uint32_t warp = WarpGroup::index_in_grid();
  const std::uint32_t warps = gridDim.x * warps_per_block;
  FileCalls files(*context, WarpGroup{}, warp);
  files.use(placement);
  char* buffer = buffers + warp * piece_bytes;
  for (std::uint64_t i = warp; i < count; i += warps) {
    const std::uint64_t piece = i * spread % count;
    const std::int64_t got =
        files.pread(file, buffer, piece_bytes, static_cast<std::int64_t>(piece * piece_bytes));
    if (got != static_cast<std::int64_t>(piece_bytes) && WarpGroup::lane() == 0)
      atomicAdd(failures, 1ULL);
  }
}

FERRY_KERNEL copy_pieces(const char* from, char* buffers, std::uint64_t piece_bytes,
                         std::uint64_t count, std::uint64_t spread) {
  const std::uint32_t warp = WarpGroup::index_in_grid();
  const std::uint32_t warps = gridDim.x * warps_per_block;
  for (std::uint64_t i = warp; i < count; i += warps) {
    const std::uint64_t piece = i * spread % count;
    device::copy_bytes(WarpGroup{}, buffers + warp * piece_bytes, from + piece * piece_bytes,
                       piece_bytes);
  }
}

FERRY_KERNEL open_file(const Context* context, const char* path, int* file) {
  FileCalls files(*context, device::ThreadGroup{}, 0);
  *file = files.open(path, O_RDONLY);
}

FERRY_KERNEL evict_file(const Context* context, int file) {
  FileCalls files(*context, device::ThreadGroup{}, 0);
  files.evict(file);
}

// Memory that kernels and host share.
template <class T>
struct Shared {
  explicit Shared(std::size_t count) {
    gpu::check(cudaMallocManaged(&data, count * sizeof(T)), "cudaMallocManaged");
    std::fill_n(data, count, T{});
  }
  ~Shared() { cudaFree(data); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* data = nullptr;
};

// What a measure needs of its runtime.
struct Setup {
  unsigned blocks = 0;
  std::uint64_t piece_bytes = page_bytes;  // of the largest read
  std::uint64_t page_bytes = ::page_bytes;
  std::uint64_t pull_bytes = ferry::GpuOptions{}.pull_bytes;
  unsigned server_threads = 0;  // 0: chosen
};

// A runtime with the file open.
class Device {
 public:
  Device(const std::string& path, const Setup& setup)
      : setup_(setup), runtime_(options(setup), groups(setup)), failures_(1) {
    const Shared<char> name(path.size() + 1);
    path.copy(name.data, path.size());
    const Shared<int> file(1);
    open_file<<<1, 1>>>(runtime_.context(), name.data, file.data);
    gpu::check(cudaDeviceSynchronize(), "opening the file");
    if (*file.data < 0) throw ferry::Error(-*file.data, path);
    file_ = *file.data;
    buffers_ = runtime_.allocate(buffer_bytes(setup));
  }

  double read(std::uint64_t piece_bytes, std::uint64_t count, std::uint64_t step,
              Placement placement) {
    const double seconds = seconds_of([&] {
      read_pieces<<<setup_.blocks, threads>>>(runtime_.context(), file_, buffers(), piece_bytes,
                                              count, step, placement, failures_.data);
    });
    if (*failures_.data != 0) throw ferry::Error(EIO, "reads in the kernel");
    return seconds;
  }
  // The same with a cache that has nothing of the file.
  double read_cold(std::uint64_t piece_bytes, std::uint64_t count, std::uint64_t step,
                   Placement placement) {
    evict_file<<<1, 1>>>(runtime_.context(), file_);
    gpu::check(cudaDeviceSynchronize(), "dropping the file's pages");
    return read(piece_bytes, count, step, placement);
  }
  double copy(const char* array, std::uint64_t piece_bytes, std::uint64_t count,
              std::uint64_t step) {
    return seconds_of([&] {
      copy_pieces<<<setup_.blocks, threads>>>(array, buffers(), piece_bytes, count, step);
    });
  }

 private:
  static std::uint64_t buffer_bytes(const Setup& setup) {
    return std::uint64_t{setup.blocks} * warps_per_block * setup.piece_bytes;
  }
  static ferry::RuntimeOptions options(const Setup& setup) {
    ferry::RuntimeOptions made;
    made.cache_bytes = 2 * file_bytes;
    made.page_bytes = static_cast<std::uint32_t>(setup.page_bytes);
    made.arena_bytes = buffer_bytes(setup) + (16 << 20);
    made.server_threads = setup.server_threads;
    return made;
  }
  static ferry::GpuOptions groups(const Setup& setup) {
    ferry::GpuOptions made;
    made.groups = setup.blocks * warps_per_block;
    made.pull_bytes = setup.pull_bytes;
    made.staging_bytes = std::max(made.staging_bytes, setup.pull_bytes);
    return made;
  }
  char* buffers() const { return buffers_.as<char>(); }

  const Setup setup_;
  ferry::GpuRuntime runtime_;
  ferry::Buffer buffers_;
  const Shared<unsigned long long> failures_;
  int file_ = -1;
};

void measure_cached_reads(const std::string& path, unsigned blocks, const char* array) {
  Setup setup;
  setup.blocks = blocks;
  Device device(path, setup);
  const std::uint64_t pages = file_bytes / page_bytes;
  const std::uint64_t rows = file_bytes / row_bytes;
  device.read(page_bytes, pages, 1, Placement::compute);
  measure_pairs(
      "gpu, cached pages: copy / read", "s",
      [&] { return device.read(page_bytes, pages, 1, Placement::compute); },
      [&] { return device.copy(array, page_bytes, pages, 1); });
  measure_pairs(
      "gpu, cached rows: array / read", "s",
      [&] { return device.read(row_bytes, rows, spread, Placement::compute); },
      [&] { return device.copy(array, row_bytes, rows, spread); });
}

// Small transfers and small pages, each fetched by the warp that wants it and by copy engines:
// where they cross, GpuOptions::pull_bytes belongs. By one thread of the server.
void measure_pulls(const std::string& path, unsigned blocks) {
  for (std::uint64_t bytes = 4096; bytes <= 256 << 10; bytes *= 4) {
    const std::string name = "gpu, " + std::to_string(bytes >> 10) + " KiB ";
    Setup setup;
    setup.blocks = blocks;
    setup.piece_bytes = bytes;
    setup.page_bytes = bytes;
    setup.server_threads = 1;
    setup.pull_bytes = bytes;
    Device pulling(path, setup);
    setup.pull_bytes = 0;
    Device copying(path, setup);
    const std::uint64_t count = std::min<std::uint64_t>(file_bytes / bytes, 1 << 16);
    measure_pairs(
        name + "past the cache: copy engine / pull", "s",
        [&] { return pulling.read(bytes, count, spread, Placement::host); },
        [&] { return copying.read(bytes, count, spread, Placement::host); });
    measure_pairs(
        name + "pages missed: copy engine / pull", "s",
        [&] { return pulling.read_cold(bytes, count, spread, Placement::compute); },
        [&] { return copying.read_cold(bytes, count, spread, Placement::compute); });
    measure_figure(name + "pages missed, by one server thread", "requests/s", rate_count, [&] {
      return static_cast<double>(count) /
             pulling.read_cold(bytes, count, spread, Placement::compute);
    });
  }
}

void measure_placements(const std::string& path, unsigned blocks) {
  for (std::uint64_t bytes = 512; bytes <= 16 << 20; bytes *= 2) {
    const std::string name = "gpu, " + std::to_string(bytes) + " B, ";
    Setup setup;
    setup.blocks = static_cast<unsigned>(
        std::min<std::uint64_t>(blocks, buffers_max / (warps_per_block * bytes)));
    setup.piece_bytes = bytes;
    Device device(path, setup);
    const std::uint64_t count = std::min<std::uint64_t>(file_bytes / bytes, 1 << 18);
    for (const Placement other : {Placement::host, Placement::compute}) {
      const std::string ratio =
          std::string(other == Placement::host ? "host" : "compute") + " / automatic";
      device.read(bytes, count, 1, Placement::compute);
      measure_pairs(
          name + "warm: " + ratio, "s",
          [&] { return device.read(bytes, count, 1, Placement::automatic); },
          [&] { return device.read(bytes, count, 1, other); });
      measure_pairs(
          name + "cold: " + ratio, "s",
          [&] { return device.read_cold(bytes, count, 1, Placement::automatic); },
          [&] { return device.read_cold(bytes, count, 1, other); });
    }
  }
}

// Whole files between the host's page cache and the GPU, beside a pinned copy of as many bytes.
void measure_bulk(const std::string& path, char* array) {
  void* pinned = nullptr;
  gpu::check(cudaMallocHost(&pinned, file_bytes), "cudaMallocHost");
  ferry::bulk::Engine engine;
  const auto seconds = [](auto work) { return ferry::benchmarks::nanoseconds_of(work) / 1e9; };
  const auto copy = [&](void* to, const void* from) {
    return seconds(
        [&] { gpu::check(cudaMemcpy(to, from, file_bytes, cudaMemcpyDefault), "cudaMemcpy"); });
  };
  {
    ferry::bulk::File file(engine, path, O_RDONLY);
    measure_pairs(
        "gpu, bulk read: pinned copy / file", "s",
        [&] { return seconds([&] { file.read_at(array, file_bytes, 0); }); },
        [&] { return copy(array, pinned); });
  }
  {
    ferry::bulk::File file(engine, path + ".written", O_RDWR | O_CREAT, 0644);
    measure_pairs(
        "gpu, bulk write: pinned copy / file", "s",
        [&] { return seconds([&] { file.write_at(array, file_bytes, 0); }); },
        [&] { return copy(pinned, array); });
  }
  unlink((path + ".written").c_str());
  cudaFreeHost(pinned);
}

void make_file(const std::string& path) {
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
  if (file < 0) throw ferry::Error(errno, path);
  const std::vector<char> piece(1 << 20, 'f');
  for (std::uint64_t at = 0; at < file_bytes; at += piece.size()) {
    if (pwrite(file, piece.data(), piece.size(), static_cast<off_t>(at)) < 0)
      throw ferry::Error(errno, path);
  }
  close(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: cuda-device DIRECTORY [MEASURE]\n");
    return 2;
  }
  if (argc > 2) ferry::benchmarks::only = argv[2];
  const std::string path = std::string(argv[1]) + "/ferry-cuda-device.data";
  int status = 0;
  try {
    make_file(path);
    int processors = 0;
    gpu::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
               "cudaDeviceGetAttribute");
    const unsigned blocks = 2 * static_cast<unsigned>(processors);
    char* array = nullptr;
    gpu::check(cudaMalloc(&array, file_bytes), "cudaMalloc");
    measure_cached_reads(path, blocks, array);
    measure_pulls(path, blocks);
    measure_placements(path, blocks);
    measure_bulk(path, array);
    cudaFree(array);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda-device: %s\n", error.what());
    status = 1;
  }
  unlink(path.c_str());
  return status;
}
