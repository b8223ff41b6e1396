// The irreducible part of bench_cold_reads: a thread that wants blocks and spins for them, a thread
// that reads them through io_uring, and one word per block between the two. What this loses against
// a program whose only thread does both (fio) is what two threads cost on this machine; no ring, no
// validation and no file calls have a share in it.
//
//   bench_bare_reads FILE BYTES DEPTH SECONDS
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cpus.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t huge_page_bytes = 2 << 20;

void fail(const std::string& message) {
  std::cerr << "bench_bare_reads: " << message << '\n';
  std::exit(1);
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
      if (entry->res != static_cast<int>(bytes_)) fail("a read failed");
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

double bytes_per_second(std::vector<Slot>& slots, std::uint64_t places, std::uint64_t bytes,
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
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  done -= std::min<std::uint64_t>(done, slots.size());  // those that were only asked for
  return static_cast<double>(done * bytes) / elapsed.count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: bench_bare_reads FILE BYTES DEPTH SECONDS\n";
    return 2;
  }
  const std::uint64_t bytes = std::stoul(argv[2]);
  std::vector<Slot> slots(std::stoul(argv[3]));
  const int fd = open(argv[1], O_RDONLY | O_DIRECT);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) fail(std::string("cannot open ") + argv[1]);
  const std::size_t room =
      (bytes * slots.size() + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(huge_page_bytes, room)), std::free);
  if (!memory) fail("no memory");
  madvise(memory.get(), room, MADV_HUGEPAGE);
  std::fill_n(memory.get(), room, '\1');
  const ferry::CpuSet cpus = ferry::allowed_cpus();
  std::atomic<bool> stop{false};
  std::thread server([&] {
    ferry::run_this_thread_on({cpus.back()});
    Reader(fd, memory.get(), bytes, slots).run(stop);
  });
  ferry::run_this_thread_on({cpus.front()});
  const auto places = static_cast<std::uint64_t>(status.st_size) / bytes;
  std::cout << bytes_per_second(slots, places, bytes, std::stod(argv[4])) << std::endl;
  stop = true;
  server.join();
}
