// Cold direct reads for a fixed time; lab/micro/run interleaves them with fio on the same file.
//
// cold-reads: `sequential` and `random` use the host with a fixed number in flight; `cached` is one
// sequential pass through the device's page cache, call by call.
//
// bare-reads: their minimal part. A thread that spins for blocks, a thread that reads them through
// io_uring, and one word per block between them. The loss against a program with a single thread
// (fio) is the cost of two threads on this machine, without ring, validation or file calls.
#include <atomic>
#include <random>

#include <liburing.h>

#include "base/cpus.hpp"
#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

double bytes_per_second(const DeviceFile& file, const BenchmarkOptions& job, char* memory) {
  auto& files = file.files;
  device::FileStatus status{};
  check(files.fstat(file.number, &status), 0);
  const std::uint64_t places = status.size_bytes / job.bytes;
  const bool random_places = job.kind == "random";
  std::mt19937_64 random(1);
  std::uint64_t next = 0;
  const auto start = [&](std::uint64_t slot) {
    const std::uint64_t place = (random_places ? random() : next++) % places;
    return files.pread_async(file.number, memory + slot * job.bytes, job.bytes,
                             static_cast<std::int64_t>(place * job.bytes));
  };
  std::vector<device::Pending> pending;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(job.seconds);
  for (std::uint64_t slot = 0; slot < job.depth; ++slot)
    pending.push_back(start(slot));
  std::uint64_t done = 0;
  const auto finish = [&](std::uint64_t slot) {
    check(files.wait(pending[slot]), job.bytes);
    ++done;
  };
  while (Clock::now() < end) {
    const unsigned slot = files.wait_any(pending.data(), static_cast<unsigned>(job.depth));
    finish(slot);
    pending[slot] = start(slot);
  }
  for (std::uint64_t slot = 0; slot < job.depth; ++slot)
    finish(slot);
  return static_cast<double>(done * job.bytes) / seconds_since(begin);
}

double cached_bytes_per_second(const DeviceFile& file, const BenchmarkOptions& job, char* memory) {
  std::int64_t at = 0;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(job.seconds);
  while (Clock::now() < end) {
    const std::int64_t got = file.files.pread(file.number, memory, job.bytes, at);
    if (got < 0) fail("a read gave " + std::to_string(got));
    if (got == 0) break;
    at += got;
  }
  return static_cast<double>(at) / seconds_since(begin);
}

void cold_reads(const BenchmarkOptions& options) {
  const bool cached = options.kind == "cached";
  on_device(cached ? one_thread(256 << 20) : RuntimeOptions(), options.bytes * options.depth,
            [&](Runtime&, DeviceThread& self, char* memory) {
              // Direct, so that the kernel's page cache has no part in it.
              const DeviceFile file(self.files, options.path, O_RDONLY | O_DIRECT);
              const auto measured = cached ? cached_bytes_per_second : bytes_per_second;
              report_figure("cold reads", "bytes/s", {measured(file, options, memory)});
            });
}

// Where in the file a block is wanted from, or `there`: then it is the wanting thread's again.
struct alignas(64) Slot {
  static constexpr std::uint64_t there = ~std::uint64_t{0};
  std::atomic<std::uint64_t> offset{there};
};

class Reader {
 public:
  Reader(int fd, char* memory, std::uint64_t bytes, std::vector<Slot>& slots)
      : memory_(memory), bytes_(bytes), slots_(slots), started_(slots.size()) {
    io_uring_params params{};
    params.flags =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    const iovec all{memory, bytes * slots.size()};
    if (io_uring_queue_init_params(256, &ring_, &params) != 0 ||
        io_uring_register_buffers(&ring_, &all, 1) != 0 ||
        io_uring_register_files(&ring_, &fd, 1) != 0) {
      fail("io_uring with registered files and buffers is refused");
    }
  }
  ~Reader() { io_uring_queue_exit(&ring_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void run(const std::atomic<bool>& stop) {
    while (!stop.load(std::memory_order_relaxed) || in_flight_ > 0) {
      const bool more = !stop.load(std::memory_order_relaxed) && start_wanted();
      collect(!more && in_flight_ > 0);
    }
  }

 private:
  bool start_wanted() {
    unsigned fresh = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (started_[i]) continue;
      const std::uint64_t offset = slots_[i].offset.load(std::memory_order_acquire);
      if (offset == Slot::there) continue;
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      io_uring_prep_read_fixed(entry, 0, memory_ + i * bytes_, static_cast<unsigned>(bytes_),
                               offset, 0);
      entry->flags |= IOSQE_FIXED_FILE;
      entry->user_data = i;
      started_[i] = true;
      ++fresh;
    }
    in_flight_ += fresh;
    if (fresh > 0) io_uring_submit(&ring_);
    return fresh > 0;
  }

  void collect(bool sleep) {
    io_uring_cqe* entry = nullptr;
    if (sleep) {
      __kernel_timespec limit{0, 1'000'000};
      io_uring_submit_and_wait_timeout(&ring_, &entry, 1, &limit, nullptr);
    } else {
      io_uring_peek_cqe(&ring_, &entry);
    }
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      ++seen;
      check(entry->res, bytes_);
      started_[entry->user_data] = false;
      slots_[entry->user_data].offset.store(Slot::there, std::memory_order_release);
    }
    in_flight_ -= seen;
    io_uring_cq_advance(&ring_, seen);
  }

  io_uring ring_{};
  char* memory_;
  std::uint64_t bytes_;
  std::vector<Slot>& slots_;
  std::vector<bool> started_;
  unsigned in_flight_ = 0;
};

double bare_bytes_per_second(std::vector<Slot>& slots, std::uint64_t places, std::uint64_t bytes,
                             double seconds) {
  std::mt19937_64 random(1);
  std::uint64_t done = 0;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    for (Slot& slot : slots) {
      if (slot.offset.load(std::memory_order_acquire) != Slot::there) continue;
      ++done;
      slot.offset.store(random() % places * bytes, std::memory_order_release);
    }
  }
  const double elapsed = seconds_since(begin);
  done -= std::min<std::uint64_t>(done, slots.size());  // those that were only asked for
  return static_cast<double>(done * bytes) / elapsed;
}

void bare_reads(const BenchmarkOptions& options) {
  std::vector<Slot> slots(options.depth);
  const KernelFile file(options.path, O_RDONLY | O_DIRECT);
  const HugeMemory memory(options.bytes * slots.size());
  const CpuSet cpus = allowed_cpus();
  std::atomic<bool> stop{false};
  std::thread server([&] {
    run_this_thread_on({cpus.back()});
    Reader(file.number, memory.data(), options.bytes, slots).run(stop);
  });
  run_this_thread_on({cpus.front()});
  const std::uint64_t places = file.size_bytes() / options.bytes;
  report_figure("bare reads", "bytes/s",
                {bare_bytes_per_second(slots, places, options.bytes, options.seconds)});
  stop = true;
  server.join();
}

const Subcommand for_cold("cold-reads", "FILE sequential|random|cached --bytes --depth --seconds",
                          "direct reads beside which fio is measured", cold_reads);
const Subcommand for_bare("bare-reads", "FILE --bytes --depth --seconds",
                          "random direct reads by two bare threads", bare_reads);

}  // namespace
