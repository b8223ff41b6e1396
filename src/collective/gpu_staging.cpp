#include "collective/gpu_staging.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "collective/impl.hpp"

namespace ferry::collective {
namespace {

constexpr std::int64_t room_bytes_max = 4 << 20;
// A copy costs the driver as long as the bus takes for about this many bytes, so closer extents are
// copied together with their gap.
constexpr std::size_t bytes_per_copy = 32 << 10;
// Maximum descriptors in the engine or in a list.
constexpr std::size_t copies_max = 1024;
constexpr std::size_t scattered_max = 64 << 10;

std::uintptr_t address_of(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

constexpr std::int64_t staged_piece_bytes_max = 16 << 20;
constexpr std::int64_t piece_bytes_min = 4096;

// A few windows, so that rounds overlap within a piece. The same on all ranks; whole elements.
std::int64_t piece_bytes_of(const Settings& settings) {
  const std::int64_t bytes = std::min(settings.buffer_bytes, staged_piece_bytes_max / 4) * 4;
  return std::max(bytes - bytes % element_bytes_max, piece_bytes_min);
}

}  // namespace

PinnedPieces::PinnedPieces(Gpu gpu, std::int64_t piece_bytes)
    : piece_bytes_(piece_bytes),
      room_bytes_(std::min(piece_bytes, room_bytes_max)),
      memory_(std::move(gpu), 1, static_cast<std::uint64_t>(2 * piece_bytes_ + room_bytes_)) {}

StagedMemory::StagedMemory(const RankRequest& request, Direction direction, Gpu gpu,
                           const PinnedPieces* pinned, std::int64_t piece_bytes, Phases& phases)
    : request_(request),
      direction_(direction),
      gpu_(std::move(gpu)),
      pinned_(pinned),
      piece_bytes_(piece_bytes),
      phases_(phases),
      raw_(request.memory.base(), request.memory.map()) {
  if (gpu_ == nullptr) {
    if (!is_in_place() && request.bytes > 0) {
      buffer_ = std::make_unique_for_overwrite<std::byte[]>(
          static_cast<std::size_t>(2 * std::min(piece_bytes_, request.bytes)));
    }
    return;
  }
  engine_.emplace(gpu_);
  const cuda::Driver& driver = gpu_->driver();
  const std::uintptr_t first = address_of(raw_.at(0));
  std::array attributes = {cuda::PointerAttribute::range_start,
                           cuda::PointerAttribute::range_bytes};
  std::array<void*, 2> values = {&range_begin_, &range_bytes_};
  if (driver.cuPointerGetAttributes(2, attributes.data(), values.data(), first) !=
      cuda::Result::success) {
    range_bytes_ = 0;
  }
}

std::int64_t StagedMemory::bytes_of(std::int64_t piece) const {
  return std::clamp(request_.bytes - piece * piece_bytes_, std::int64_t{0}, piece_bytes_);
}

std::byte* StagedMemory::place_of(std::int64_t piece) const {
  if (pinned_ != nullptr) return pinned_->piece(piece);
  return buffer_.get() + (piece % 2) * std::min(piece_bytes_, request_.bytes);
}

RankRequest StagedMemory::part(std::int64_t piece) const {
  const std::int64_t bytes = bytes_of(piece);
  const std::int64_t at = std::min(piece * piece_bytes_, request_.bytes);
  std::byte* place = nullptr;
  if (bytes > 0) place = is_in_place() ? raw_.at(at) : place_of(piece);
  return {request_.view, Memory(place, dense_, request_.memory.swapped_bytes()),
          request_.stream + at, bytes};
}

int StagedMemory::start(std::int64_t piece) {
  const std::int64_t bytes = bytes_of(piece);
  if (bytes == 0 || is_in_place()) return 0;
  const Stopwatch stopwatch(phases_.pack_ns);
  const std::int64_t at = piece * piece_bytes_;
  std::byte* place = place_of(piece);
  if (gpu_ == nullptr) {
    direction_ == Direction::write ? raw_.pack(at, bytes, place) : raw_.unpack(at, bytes, place);
    return 0;
  }
  try {
    raw_.for_each(at, bytes, [&](std::byte* on_gpu, std::int64_t length) {
      const auto size = static_cast<std::size_t>(length);
      direction_ == Direction::write ? gather(on_gpu, place, size) : copy(on_gpu, place, size);
      place += length;
    });
    close_group();
    engine_->flush();
    gpu_bytes_ += static_cast<std::uint64_t>(bytes);
  } catch (const Error& error) {
    keep(error_, error.code().value());
  }
  return error_;
}

int StagedMemory::finish() {
  if (gpu_ == nullptr || error_ != 0) return error_;
  const Stopwatch stopwatch(phases_.pack_ns);
  try {
    scatter();
  } catch (const Error& error) {
    keep(error_, error.code().value());
  }
  return error_;
}

void StagedMemory::copy(std::byte* on_gpu, std::byte* on_host, std::size_t bytes) {
  if (copies_.size() == copies_max) await();
  copies_.push_back({direction_, on_host, address_of(on_gpu), bytes});
  engine_->start(copies_.back());
}

// Adds an extent, merged with earlier ones if the gap costs less than another copy.
void StagedMemory::gather(std::byte* from, std::byte* to, std::size_t bytes) {
  const std::uintptr_t begin = address_of(from);
  const std::uintptr_t end = begin + bytes;
  if (begin < range_begin_ || end > range_begin_ + range_bytes_ || bytes >= bytes_per_copy) {
    close_group();
    copy(from, to, bytes);
    return;
  }
  const std::uintptr_t group_begin = group_.empty() ? begin : std::min(group_begin_, begin);
  const std::uintptr_t group_end = group_.empty() ? end : std::max(group_end_, end);
  const auto room_left = static_cast<std::size_t>(pinned_->room_bytes() - room_used_);
  if (group_end - group_begin > (group_.size() + 1) * bytes_per_copy ||
      group_end - group_begin > room_left || scattered_.size() + group_.size() >= scattered_max) {
    close_group();
    if (scattered_.size() >= scattered_max / 2 || 2 * room_used_ > pinned_->room_bytes()) scatter();
    group_begin_ = begin;
    group_end_ = end;
  } else {
    group_begin_ = group_begin;
    group_end_ = group_end;
  }
  group_.push_back({from, to, bytes});
}

void StagedMemory::close_group() {
  if (group_.size() == 1) {
    copy(group_[0].from, group_[0].to, group_[0].bytes);
  } else if (!group_.empty()) {
    std::byte* room = pinned_->room() + room_used_;
    const std::size_t span_bytes = group_end_ - group_begin_;
    copy(group_[0].from - (address_of(group_[0].from) - group_begin_), room, span_bytes);
    room_used_ += static_cast<std::int64_t>(span_bytes);
    for (Scattered one : group_) {
      one.from = room + (address_of(one.from) - group_begin_);
      scattered_.push_back(one);
    }
  }
  group_.clear();
}

// Moves what has arrived in the buffer to its destination.
void StagedMemory::scatter() {
  await();
  if (error_ == 0) {
    for (const Scattered& one : scattered_)
      std::memcpy(one.to, one.from, one.bytes);
  }
  scattered_.clear();
  room_used_ = 0;
}

// Waits until no copy is in flight.
void StagedMemory::await() {
  constexpr std::chrono::microseconds nap{20};
  constexpr int polls_max = 100;
  engine_->flush();
  for (int polls = 0; engine_->in_flight() > 0; ++polls) {
    while (const cuda::Copy* copy = engine_->reap()) {
      keep(error_, -copy->result);
      polls = 0;
    }
    if (engine_->in_flight() > 0 && polls >= polls_max) std::this_thread::sleep_for(nap);
  }
  copies_.clear();
}

Gpu GpuStaging::owner_of(const RankRequest& request) {
  if (request.bytes <= 0 || request.memory.map().data_bytes() == 0) return nullptr;
  return gpus_.owner_of(request.memory.at(0));
}

const PinnedPieces& GpuStaging::pinned(const Gpu& gpu, std::int64_t piece_bytes) {
  if (!pinned_) pinned_.emplace(gpu, piece_bytes);
  return *pinned_;
}

// Null for host memory. Does everything that may fail on one rank only, before the ranks agree.
std::unique_ptr<StagedMemory> File::Impl::stage(Direction direction, const RankRequest& request,
                                                int& error) {
  try {
    const Gpu gpu = gpu_staging_.owner_of(request);
    if (gpu == nullptr) return nullptr;
    const std::int64_t piece_bytes = piece_bytes_of(settings_);
    const PinnedPieces& pinned = gpu_staging_.pinned(gpu, piece_bytes);
    return std::make_unique<StagedMemory>(request, direction, gpu, &pinned, piece_bytes, phases_);
  } catch (const std::system_error& failed) {
    error = errno_of(failed);
    return nullptr;
  }
}

// Each piece is a transfer of all ranks; ranks with host memory take part with pieces of theirs.
int File::Impl::move_staged(Direction direction, const RankRequest& request, const Agreed& agreed,
                            std::unique_ptr<StagedMemory> memory) {
  const std::int64_t piece_bytes = piece_bytes_of(settings_);
  if (memory == nullptr) {
    memory =
        std::make_unique<StagedMemory>(request, direction, nullptr, nullptr, piece_bytes, phases_);
  }
  const std::int64_t pieces = (agreed.bytes_max + piece_bytes - 1) / piece_bytes;
  const int error = memory->move_all(pieces, [&](const RankRequest& part, int failed) {
    const Agreed piece = agree_on_piece(direction, part, failed, agreed.file_bytes);
    return piece.end > piece.begin ? move(method_, direction, part, piece) : 0;
  });
  counts_.gpu_bytes += memory->gpu_bytes();
  return error;
}

int File::Impl::move_staged_alone(Direction direction, const RankRequest& request,
                                  StagedMemory& memory) {
  const std::int64_t piece_bytes = piece_bytes_of(settings_);
  const std::int64_t pieces = (request.bytes + piece_bytes - 1) / piece_bytes;
  const int error = memory.move_all(pieces, [&](const RankRequest& part, int failed) {
    return failed != 0 ? failed : move_alone(direction, part);
  });
  counts_.gpu_bytes += memory.gpu_bytes();
  return error;
}

}  // namespace ferry::collective
