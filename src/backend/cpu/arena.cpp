#include "backend/cpu/arena.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/staging.hpp"

namespace ferry::cpu {
namespace {

constexpr std::uint64_t huge_page_bytes = 2 << 20;
constexpr std::uint64_t kernel_page_bytes = 4096;  // the smallest that kernels have

// KiB of the mapping at `base` in transparent huge pages, as counted by the kernel.
std::uint64_t huge_kib(const void* base) {
  char start[32];
  std::snprintf(start, sizeof start, "%lx-", reinterpret_cast<unsigned long>(base));
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind(start, 0) == 0) here = true;
    unsigned long kib = 0;
    if (here && std::sscanf(line.c_str(), "AnonHugePages: %lu", &kib) == 1) return kib;
  }
  return 0;
}

std::uint64_t whole_huge_pages(std::uint64_t bytes) {
  const std::uint64_t whole = (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  if (bytes == 0 || whole < bytes || whole + huge_page_bytes < whole) {
    throw std::system_error(ENOMEM, std::system_category(), "an arena of that size");
  }
  return whole;
}

}  // namespace

CpuArena::CpuArena(std::uint64_t bytes) : bytes_(whole_huge_pages(bytes)) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
  huge_ = memory != MAP_FAILED;
  if (!huge_) memory = map_huge(bytes_, true);
  if (memory == nullptr) {
    throw std::system_error(errno, std::system_category(), "mapping the device's arena");
  }
  base_ = static_cast<unsigned char*>(memory);
  // A child process must neither use it nor make the kernel copy pinned pages.
  madvise(base_, bytes_, MADV_DONTFORK);
}

CpuArena::CpuArena(std::uint64_t bytes, const CpuSet& cpus) : CpuArena(bytes) {
  std::thread([&] {
    run_this_thread_on(cpus);
    // The kernel gives zeros, from the memory that is next to the CPU that first writes a page.
    for (std::uint64_t page = 0; page < bytes_; page += kernel_page_bytes)
      base_[page] = 0;
  }).join();
}

CpuArena CpuArena::shared(std::uint64_t bytes) {
  return {Shared{}, bytes};
}

CpuArena::CpuArena(Shared /*kind*/, std::uint64_t bytes) : bytes_(whole_huge_pages(bytes)) {
  file_ = memfd_create("ferry-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* memory = MAP_FAILED;
  // No process can shrink it, so that no access of another ends with SIGBUS.
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes_)) == 0 &&
      fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  }
  if (memory == MAP_FAILED) {
    const int error = errno;
    if (file_ >= 0) close(file_);
    throw std::system_error(error, std::system_category(), "making a shared arena");
  }
  base_ = static_cast<unsigned char*>(memory);
  madvise(base_, bytes_, MADV_DONTFORK);
  madvise(base_, bytes_, MADV_HUGEPAGE);  // where the system grants them for shared memory
}

CpuArena::~CpuArena() {
  munmap(base_, bytes_);
  if (file_ >= 0) close(file_);
}

std::string CpuArena::page_kind() const {
  if (huge_) return "huge pages";
  if (file_ >= 0) return "shared pages, made when they are first used";
  const std::uint64_t kib = huge_kib(base_);
  if (kib == 0) return "4 KiB pages";
  return "transparent huge pages (" + std::to_string(kib >> 10) + " of " +
         std::to_string(bytes_ >> 20) + " MiB)";
}

Heap::Heap(unsigned char* base, std::uint64_t bytes) : base_(base) {
  free_[0] = bytes;
}

void* Heap::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes == 0) bytes = 1;
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<std::uintptr_t>(base_);
  for (auto& [offset, size] : free_) {
    const std::uint64_t aligned = (start + offset + alignment - 1) / alignment * alignment - start;
    const std::uint64_t skipped = aligned - offset;
    if (size < skipped || size - skipped < bytes) continue;
    const std::uint64_t begin = offset;
    const std::uint64_t behind = size - skipped - bytes;
    // What needs memory comes first; no range is lost if there is none.
    Ranges taken;
    Ranges rest;
    taken[aligned] = bytes;
    if (behind > 0) rest[aligned + bytes] = behind;
    if (skipped > 0) {
      size = skipped;
    } else {
      free_.erase(begin);
    }
    used_.merge(taken);
    free_.merge(rest);
    return base_ + aligned;
  }
  return nullptr;
}

void Heap::free(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto used =
      used_.find(static_cast<std::uint64_t>(static_cast<unsigned char*>(pointer) - base_));
  auto [offset, bytes] = *used;
  auto node = used_.extract(used);  // so that nothing is allocated here
  const auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  node.key() = offset;
  node.mapped() = bytes;
  free_.insert(std::move(node));
}

std::uint64_t Heap::largest_free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t largest = 0;
  for (const auto& [offset, bytes] : free_)
    largest = std::max(largest, bytes);
  return largest;
}

}  // namespace ferry::cpu
