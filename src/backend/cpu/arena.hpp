// The memory of the `cpu` device: one mapping, if possible in huge pages and near its cores.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/cpus.hpp"

namespace ferry::cpu {

class CpuArena {
 public:
  // Maps and touches `bytes` (rounded up to 2 MiB) on one of `cpus`, so that pages come from its
  // NUMA node. Throws std::system_error if memory is short.
  CpuArena(std::uint64_t bytes, const CpuSet& cpus);
  // Other processes may map it, too: a memfd of a size that is sealed, with pages that appear when
  // they are first used. Throws std::system_error.
  static CpuArena shared(std::uint64_t bytes);
  ~CpuArena();
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  unsigned char* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }
  // The memfd of a shared arena; -1: it is not shared.
  int file() const { return file_; }
  // "huge pages", "transparent huge pages (48 of 64 MiB)" or "4 KiB pages".
  std::string page_kind() const;

 private:
  struct Shared {};
  CpuArena(Shared kind, std::uint64_t bytes);
  // Mapped only.
  explicit CpuArena(std::uint64_t bytes);

  unsigned char* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  int file_ = -1;
  bool huge_ = false;
};

// Allocates pieces of a range of memory: first fit, merging free neighbours. Thread-safe.
class Heap {
 public:
  Heap(unsigned char* base, std::uint64_t bytes);
  // Null if no piece of that size is free. `alignment` is a power of two.
  void* allocate(std::uint64_t bytes, std::uint64_t alignment);
  void free(void* pointer);
  std::uint64_t largest_free_bytes() const;

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // offset -> bytes

  unsigned char* const base_;
  mutable std::mutex mutex_;
  Ranges free_;
  Ranges used_;
};

}  // namespace ferry::cpu
