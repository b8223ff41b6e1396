#include "server/file_table.hpp"

#include <bit>
#include <cerrno>

#include <ferry/device/control.hpp>

namespace ferry::server {

FileTable::FileTable(std::uint32_t files_max, std::uint32_t generation)
    : slots_(files_max),
      index_bits_(static_cast<unsigned>(std::bit_width(device::handle_index_mask(files_max)))),
      free_(files_max),
      free_count_(files_max) {
  for (std::uint32_t index = 0; index < files_max; ++index) {
    slots_[index].word.store(std::uint64_t{generation} << generation_shift,
                             std::memory_order_relaxed);
    free_[index] = index;
  }
}

FileTable::~FileTable() {
  for (const Slot& slot : slots_)
    delete slot.file;
}

std::uint32_t FileTable::index_of(std::int32_t handle) const {
  return static_cast<std::uint32_t>(handle) & ((1U << index_bits_) - 1);
}

std::uint64_t FileTable::generation_of(std::int32_t handle) const {
  return static_cast<std::uint32_t>(handle) >> index_bits_;
}

std::int32_t FileTable::handle_of(std::uint64_t word, std::uint32_t index) const {
  const auto generation = static_cast<std::uint32_t>(word >> generation_shift);
  return static_cast<std::int32_t>((generation << index_bits_) | index);
}

const FileTable::Slot* FileTable::find(std::int32_t handle) const {
  if (handle <= 0) return nullptr;
  const std::uint32_t index = index_of(handle);
  return index < slots_.size() ? &slots_[index] : nullptr;
}

bool FileTable::reserve() {
  const std::lock_guard lock(mutex_);
  if (free_count_ == reserved_) return false;
  ++reserved_;
  return true;
}

void FileTable::give_back() {
  const std::lock_guard lock(mutex_);
  --reserved_;
}

std::int32_t FileTable::insert(std::unique_ptr<storage::File>& file) {
  return reserve() ? insert_reserved(std::move(file)) : -ENFILE;
}

std::int32_t FileTable::insert_reserved(std::unique_ptr<storage::File> file, std::string path) {
  std::uint32_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    --reserved_;
    index = free_[free_first_];
    free_first_ = (free_first_ + 1) % free_.size();
    --free_count_;
  }
  Slot& slot = slots_[index];
  slot.file = file.release();
  slot.path = std::move(path);
  // Release: acquiring the slot as open makes the file visible.
  const std::uint64_t before = slot.word.fetch_or(open_bit, std::memory_order_release);
  return handle_of(before, index);
}

storage::File* FileTable::acquire(std::int32_t handle) {
  Slot* slot = find(handle);
  if (slot == nullptr) return nullptr;
  std::uint64_t word = slot->word.load(std::memory_order_relaxed);
  do {
    if ((word & open_bit) == 0 || word >> generation_shift != generation_of(handle)) {
      return nullptr;
    }
  } while (!slot->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed));
  return slot->file;
}

void FileTable::release(std::int32_t handle) {
  // Release: this user's accesses happen before finish_close().
  find(handle)->word.fetch_sub(1, std::memory_order_release);
}

std::string FileTable::path_of(std::int32_t handle) {
  if (acquire(handle) == nullptr) return {};
  std::string path = find(handle)->path;
  release(handle);
  return path;
}

bool FileTable::begin_close(std::int32_t handle) {
  Slot* slot = find(handle);
  if (slot == nullptr) return false;
  std::uint64_t word = slot->word.load(std::memory_order_relaxed);
  do {
    if ((word & open_bit) == 0 || word >> generation_shift != generation_of(handle)) return false;
  } while (!slot->word.compare_exchange_weak(word, word & ~open_bit, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  return true;
}

bool FileTable::unused(std::int32_t handle) const {
  return (find(handle)->word.load(std::memory_order_acquire) & users_mask) == 0;
}

storage::File* FileTable::finish_close(std::int32_t handle) {
  Slot* slot = find(handle);
  storage::File* file = slot->file;
  slot->file = nullptr;
  const std::uint64_t generation = generation_of(handle);
  // Never 0: a handle is positive.
  const std::uint64_t generation_max = (1U << (device::handle_bits - index_bits_)) - 1;
  const std::uint64_t next = generation == generation_max ? 1 : generation + 1;
  slot->word.store(next << generation_shift, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  free_[(free_first_ + free_count_++) % free_.size()] = index_of(handle);
  return file;
}

std::vector<std::int32_t> FileTable::open_handles() const {
  std::vector<std::int32_t> handles;
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    const std::uint64_t word = slots_[index].word.load(std::memory_order_acquire);
    if ((word & open_bit) == 0) continue;
    handles.push_back(handle_of(word, index));
  }
  return handles;
}

}  // namespace ferry::server
