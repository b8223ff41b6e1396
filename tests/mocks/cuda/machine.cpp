#include "mocks/cuda/machine.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>

#include <sys/mman.h>

namespace ferry::cuda::mock {
namespace {

constexpr std::size_t window_bytes = std::size_t{16} << 30;
constexpr std::size_t granule_bytes = 2 << 20;  // a GPU's page size; a gap follows every range

long environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

// Whether a child of fork() shares the memory, so that it can run its parent's kernel.
bool is_shared() {
  static const bool shared = environment("FERRY_MOCK_CUDA_SHARED", 0) != 0;
  return shared;
}

std::uintptr_t reserve(int protection) {
  const int flags = (is_shared() ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE;
  void* mapped = mmap(nullptr, window_bytes, protection, flags, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  return reinterpret_cast<std::uintptr_t>(mapped);
}

// Memory of the host; aligned to a page. Null: there is none.
void* host_memory(std::size_t bytes) {
  if (is_shared()) {
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? nullptr : mapped;
  }
  void* memory = nullptr;
  return posix_memalign(&memory, 4096, bytes) == 0 ? memory : nullptr;
}
void free_host_memory(void* memory, std::size_t bytes) {
  if (is_shared()) {
    munmap(memory, bytes);
  } else {
    std::free(memory);
  }
}

}  // namespace

Machine& Machine::instance() {
  static auto* machine = new Machine;  // its threads may outlive main()
  return *machine;
}

Machine::Machine()
    : devices_(static_cast<int>(environment("FERRY_MOCK_CUDA_DEVICES", 2))),
      version_(static_cast<int>(environment("FERRY_MOCK_CUDA_VERSION", 13000))),
      window_(reserve(PROT_NONE)),
      shadow_(reserve(PROT_READ | PROT_WRITE)),
      next_(window_) {
  values_["kernel_offset"] = static_cast<long>(shadow_ - window_);
}

long Machine::get(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return values_[name];
}

void Machine::set(const std::string& name, long value) {
  const std::lock_guard lock(mutex_);
  values_[name] = value;
}

void Machine::count(const std::string& name, long amount) {
  const std::lock_guard lock(mutex_);
  long& value = values_[name];
  value += amount;
  long& largest = values_[name + "_max"];
  if (value > largest) largest = value;
}

bool Machine::falls_due(const std::string& name) {
  const std::lock_guard lock(mutex_);
  long& left = values_[name];
  return left > 0 && --left == 0;
}

void Machine::wait_for_kernels() {
  if (get("kernel_runs") == 0) return;
  count("waits_for_kernels");
  // Bounded, so that a test can report the problem.
  for (int rounds = 0; rounds < 10'000 && get("kernel_runs") != 0; ++rounds)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

std::uintptr_t Machine::place(std::size_t bytes) {
  for (bool again = false;;) {
    if (next_ + bytes > window_ + window_bytes) {
      if (again || bytes > window_bytes) return 0;
      again = true;
      next_ = window_;
    }
    const auto after = ranges_.lower_bound(next_ + bytes);
    const MockRange* last = after == ranges_.begin() ? nullptr : &std::prev(after)->second;
    if (last == nullptr || last->begin + last->bytes <= next_) break;
    next_ = (last->begin + last->bytes + 2 * granule_bytes) / granule_bytes * granule_bytes;
  }
  const std::uintptr_t begin = next_;
  next_ += bytes;
  return begin;
}

Result Machine::allocate(MockRange::Kind kind, int device, std::size_t bytes,
                         std::uintptr_t& address) {
  if (bytes == 0) return Result::invalid_value;
  wait_for_kernels();
  if (get("out_of_memory") != 0) return Result::out_of_memory;
  MockRange range{kind, 0, bytes, device, 0};
  if (kind == MockRange::Kind::device) {
    const std::lock_guard lock(mutex_);
    range.begin = place((bytes / granule_bytes + 2) * granule_bytes);
    if (range.begin == 0) return Result::out_of_memory;
  } else {
    void* memory = host_memory(bytes);
    if (memory == nullptr) return Result::out_of_memory;
    range.begin = reinterpret_cast<std::uintptr_t>(memory);
  }
  if (kind == MockRange::Kind::pinned) count("pinned_bytes", static_cast<long>(bytes));
  const std::lock_guard lock(mutex_);
  ranges_[range.begin] = range;
  address = range.begin;
  return Result::success;
}

Result Machine::add_registered(std::uintptr_t begin, std::size_t bytes, int device) {
  if (bytes == 0 || begin == 0) return Result::invalid_value;
  wait_for_kernels();
  if (get("out_of_memory") != 0) return Result::out_of_memory;
  {
    const std::lock_guard lock(mutex_);
    if (locate(begin, 1) != nullptr) return Result::host_memory_already_registered;
    ranges_[begin] = MockRange{MockRange::Kind::registered, begin, bytes, device, 0};
  }
  count("pinned_bytes", static_cast<long>(bytes));
  return Result::success;
}

Result Machine::remove(MockRange::Kind kind, std::uintptr_t address) {
  MockRange range;
  wait_for_kernels();
  {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(address);
    if (found == ranges_.end() || found->second.kind != kind) {
      return kind == MockRange::Kind::registered ? Result::host_memory_not_registered
                                                 : Result::invalid_value;
    }
    range = found->second;
    if (kind == MockRange::Kind::device) {
      // Whole granules, and the gap behind them, belong to this range only; not after it is freed.
      madvise(bytes_at(range.begin), (range.bytes / granule_bytes + 1) * granule_bytes,
              is_shared() ? MADV_REMOVE : MADV_DONTNEED);
    }
    ranges_.erase(found);
  }
  // A real driver waits for the GPU here. Do not rely on that.
  if (range.pending_copies > 0) count("freed_under_a_copy");
  const bool pinned = kind == MockRange::Kind::pinned || kind == MockRange::Kind::registered;
  if (pinned) count("pinned_bytes", -static_cast<long>(range.bytes));
  if (kind == MockRange::Kind::pinned || kind == MockRange::Kind::managed) {
    free_host_memory(reinterpret_cast<void*>(range.begin), range.bytes);
  }
  return Result::success;
}

MockRange* Machine::locate(std::uintptr_t address, std::size_t bytes) {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  MockRange& range = std::prev(after)->second;
  const std::size_t into = address - range.begin;
  return into < range.bytes && bytes <= range.bytes - into ? &range : nullptr;
}

bool Machine::find(std::uintptr_t address, MockRange& found) {
  const std::lock_guard lock(mutex_);
  const MockRange* range = locate(address, 1);
  if (range != nullptr) found = *range;
  return range != nullptr;
}

Result Machine::begin_copy(std::uintptr_t device_side, std::uintptr_t host_side, std::size_t bytes,
                           bool asynchronous) {
  const std::lock_guard lock(mutex_);
  MockRange* device = locate(device_side, bytes);
  if (device == nullptr) return Result::invalid_value;
  ++device->pending_copies;
  if (MockRange* host = locate(host_side, bytes)) {
    ++host->pending_copies;
  } else if (asynchronous) {
    // A real driver makes such copies before it returns, slowly.
    ++values_["pageable_copies"];
  }
  return Result::success;
}

void Machine::end_copy(std::uintptr_t device_side, std::uintptr_t host_side) {
  const std::lock_guard lock(mutex_);
  for (const std::uintptr_t side : {device_side, host_side}) {
    if (MockRange* range = locate(side, 1); range != nullptr && range->pending_copies > 0) {
      --range->pending_copies;
    }
  }
}

std::byte* Machine::bytes_at(std::uintptr_t address) const {
  const bool in_window = address >= window_ && address < window_ + window_bytes;
  return reinterpret_cast<std::byte*>(in_window ? address - window_ + shadow_ : address);
}

}  // namespace ferry::cuda::mock

// Faults and counters for tests, by name.
//   faults    out_of_memory     1: nothing more can be allocated or registered
//             fail_copy_call    n: the n-th copy from now is refused
//             fail_copy         n: the n-th copy from now fails while it runs, and then all is lost
//             lost              1: every call fails
//             copy_delay_us     how long an asynchronous copy waits before it runs
//             hold_copies       1: asynchronous copies wait until this is 0
//             newer_kernels     n: the n-th module from now is too new for this driver
//             fail_launch       n: the n-th launch from now is refused
//             fail_kernel       n: the n-th kernel from now crashes, and then all is lost
//             kernel_runs       1: a kernel runs until this is 0, and what a driver may put off
//                               until then, allocations above all, takes as long (or a second)
//   counters  copies, kernels, copied_bytes, pinned_bytes, pinned_bytes_max, pageable_copies,
//             freed_under_a_copy, streams, waits_for_kernels
//   constant  kernel_offset     what a thread that plays a kernel adds to device addresses
extern "C" __attribute__((visibility("default"))) long ferry_mock_cuda_get(const char* name) {
  return ferry::cuda::mock::Machine::instance().get(name);
}
extern "C" __attribute__((visibility("default"))) void ferry_mock_cuda_set(const char* name,
                                                                           long value) {
  ferry::cuda::mock::Machine::instance().set(name, value);
}
