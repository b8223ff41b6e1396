#include "base/staging.hpp"

#include <cerrno>
#include <system_error>

#include <sys/mman.h>

namespace ferry {
namespace {

constexpr std::uint64_t huge_page_bytes = 2 << 20;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

}  // namespace

std::byte* map_huge(std::uint64_t bytes, bool reserved) {
  // One huge page more than needed, for alignment; the surplus is returned.
  const std::uint64_t wanted = rounded(bytes);
  void* mapped = mmap(nullptr, wanted + huge_page_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (reserved ? 0 : MAP_NORESERVE), -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  const std::uint64_t past = reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes;
  std::byte* aligned = past == 0 ? begin : begin + (huge_page_bytes - past);
  const auto before = static_cast<std::uint64_t>(aligned - begin);
  if (before > 0) munmap(begin, before);
  munmap(aligned + wanted, huge_page_bytes - before);
  madvise(aligned, wanted, MADV_HUGEPAGE);
  return aligned;
}

void unmap_huge(std::byte* memory, std::uint64_t bytes) {
  munmap(memory, rounded(bytes));
}

Staging::Staging(unsigned slots, std::uint64_t slot_bytes)
    : base_(map_huge(slots * slot_bytes)), bytes_(slots * slot_bytes) {
  if (base_ == nullptr) throw std::system_error(ENOMEM, std::system_category(), "staging memory");
  for (unsigned slot = slots; slot > 0; --slot)
    free_.push_back(base_ + (slot - 1) * slot_bytes);
}

Staging::~Staging() {
  unmap_huge(base_, bytes_);
}

std::byte* Staging::take() {
  if (free_.empty()) return nullptr;
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace ferry
