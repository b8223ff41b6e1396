// GPU memory in a transfer. The host cannot touch it, so a transfer moves it piece by piece: while
// the ranks exchange one piece in page-locked host memory, the GPU's copy engine fetches the next
// one, or returns the previous one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/copy_engine.hpp"
#include "backend/cuda/gpus.hpp"
#include "collective/context.hpp"

namespace ferry::collective {

// The GPU whose memory a transfer uses. Null: it is host memory.
using Gpu = std::shared_ptr<const cuda::PrimaryContext>;

// Page-locked memory, kept between transfers: two pieces, and a buffer for small extents on a GPU.
class PinnedPieces {
 public:
  // Throws std::system_error (ENOMEM, and other errors of the driver).
  PinnedPieces(Gpu gpu, std::int64_t piece_bytes);
  std::byte* piece(std::int64_t index) const {
    return memory_.memory().data() + (index % 2) * piece_bytes_;
  }
  std::byte* room() const { return memory_.memory().data() + 2 * piece_bytes_; }
  std::int64_t room_bytes() const { return room_bytes_; }

 private:
  const std::int64_t piece_bytes_;
  const std::int64_t room_bytes_;
  const cuda::PinnedSlots memory_;
};

// One transfer's memory in pieces that the host may touch. For one thread.
class StagedMemory {
 public:
  // `gpu` and `pinned` are null if this rank uses host memory while another does not: all ranks
  // then move pieces. Throws ferry::Error. `request` must outlive it.
  StagedMemory(const RankRequest& request, Direction direction, Gpu gpu, const PinnedPieces* pinned,
               std::int64_t piece_bytes, Phases& phases);

  // Calls move(request, error), which returns an errno, for each of `pieces`. If `error` is not 0,
  // moving is optional, and move() may throw. Returns the first error.
  template <class Move>
  int move_all(std::int64_t pieces, Move&& move) {
    int error = direction_ == Direction::write && pieces > 0 ? start(0) : 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      if (direction_ == Direction::write) {
        keep(error, finish());
        if (error == 0 && piece + 1 < pieces) error = start(piece + 1);
      }
      keep(error, move(part(piece), error));
      if (direction_ == Direction::write) continue;
      keep(error, finish());
      if (error == 0) error = start(piece);
    }
    keep(error, finish());
    return error;
  }

  // Bytes copied from or to the GPU for the transfer, without gaps.
  std::uint64_t gpu_bytes() const { return gpu_bytes_; }

 private:
  // Bytes on a GPU, and their destination.
  struct Scattered {
    std::byte* from;
    std::byte* to;
    std::size_t bytes;
  };

  // Between the user's memory and a piece; one at a time. Both return an errno.
  int start(std::int64_t piece);
  int finish();
  RankRequest part(std::int64_t piece) const;

  std::int64_t bytes_of(std::int64_t piece) const;
  bool is_in_place() const { return gpu_ == nullptr && raw_.map().is_dense(); }
  std::byte* place_of(std::int64_t piece) const;
  void copy(std::byte* on_gpu, std::byte* on_host, std::size_t bytes);
  void gather(std::byte* from, std::byte* to, std::size_t bytes);
  void close_group();
  void scatter();
  void await();

  const RankRequest& request_;
  const Direction direction_;
  const Gpu gpu_;
  const PinnedPieces* const pinned_;
  const std::int64_t piece_bytes_;
  Phases& phases_;
  const Memory raw_;                     // the user's
  const TypeMap dense_;                  // of a piece
  std::unique_ptr<std::byte[]> buffer_;  // two pieces, if host memory is not dense
  // The memory's GPU allocation: gaps inside it may be read. 0 bytes if the driver does not say.
  std::uintptr_t range_begin_ = 0;
  std::size_t range_bytes_ = 0;
  std::vector<Scattered> group_;    // small neighbouring extents, not copied yet
  std::uintptr_t group_begin_ = 0;  // their span
  std::uintptr_t group_end_ = 0;
  std::vector<Scattered> scattered_;  // in the buffer, or in flight to it
  std::int64_t room_used_ = 0;
  std::deque<cuda::Copy> copies_;  // in flight
  int error_ = 0;
  std::uint64_t gpu_bytes_ = 0;
  std::optional<cuda::CopyEngine> engine_;  // destroyed first, which ends the copies
};

// Finds GPUs, and keeps the resources for one file's transfers.
class GpuStaging {
 public:
  // The GPU of a request's memory. Throws ferry::Error (ENOTSUP, EIO), as cuda::Gpus does.
  Gpu owner_of(const RankRequest& request);
  // Throws std::system_error.
  const PinnedPieces& pinned(const Gpu& gpu, std::int64_t piece_bytes);

 private:
  cuda::Gpus gpus_;
  std::optional<PinnedPieces> pinned_;
};

}  // namespace ferry::collective
