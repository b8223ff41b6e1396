// Memory of a GPU in a transfer. The host may not touch it, so a transfer moves it piece by piece:
// while the ranks exchange one piece through page-locked memory of the host, as any other memory,
// the GPU's copy engine brings the next one, or takes away the one before.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/gpus.hpp"
#include "backend/cuda/stream_copies.hpp"
#include "base/staging.hpp"
#include "collective/context.hpp"

namespace ferry::collective {

// The GPU whose memory a transfer reads or writes. Null: it is the host's.
using Gpu = std::shared_ptr<const cuda::PrimaryContext>;

// Page-locked memory: two pieces, and room for what lies in small extents on a GPU. Kept from one
// transfer of a file to the next.
class PinnedPieces {
 public:
  // Throws std::system_error (ENOMEM, and what else the driver says).
  PinnedPieces(Gpu gpu, std::int64_t piece_bytes);
  std::byte* piece(std::int64_t index) const {
    return memory_.memory().data() + (index % 2) * piece_bytes_;
  }
  std::byte* room() const { return memory_.memory().data() + 2 * piece_bytes_; }
  std::int64_t room_bytes() const { return room_bytes_; }

 private:
  const std::int64_t piece_bytes_;
  const std::int64_t room_bytes_;
  const Staging memory_;
  const cuda::Registration registration_;
};

// One transfer's memory in pieces that the host may touch. To be used by one thread.
class StagedMemory {
 public:
  // `gpu` and `pinned` are null where the memory is the host's, and another rank's is not: then all
  // move pieces. Throws ferry::Error. `request` must outlive it.
  StagedMemory(const Request& request, bool writes, Gpu gpu, const PinnedPieces* pinned,
               std::int64_t piece_bytes, Phases& phases);

  // Moves `pieces` of them by calling move(request, error), which returns an errno, for each. Where
  // `error` is not 0 nothing need be moved any more, and move() may throw. Returns the first error.
  template <class Move>
  int move_all(std::int64_t pieces, Move&& move) {
    int error = writes_ && pieces > 0 ? start(0) : 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      if (writes_) {
        keep(error, finish());
        if (error == 0 && piece + 1 < pieces) error = start(piece + 1);
      }
      keep(error, move(part(piece), error));
      if (writes_) continue;
      keep(error, finish());
      if (error == 0) error = start(piece);
    }
    keep(error, finish());
    return error;
  }

  // That were copied from or to the GPU for the transfer, gaps not counted.
  std::uint64_t gpu_bytes() const { return gpu_bytes_; }

 private:
  // Bytes on a GPU, and where they belong.
  struct Scattered {
    std::byte* from;
    std::byte* to;
    std::size_t bytes;
  };

  static void keep(int& first, int error) {
    if (first == 0) first = error;
  }
  // Between the user's memory and a piece; only one at a time. Both return an errno.
  int start(std::int64_t piece);
  int finish();
  Request part(std::int64_t piece) const;

  std::int64_t bytes_of(std::int64_t piece) const;
  bool is_in_place() const { return gpu_ == nullptr && raw_.map().is_dense(); }
  std::byte* place_of(std::int64_t piece) const;
  void copy(std::byte* on_gpu, std::byte* on_host, std::size_t bytes);
  void gather(std::byte* from, std::byte* to, std::size_t bytes);
  void close_group();
  void scatter();
  void await();

  const Request& request_;
  const bool writes_;
  const Gpu gpu_;
  const PinnedPieces* const pinned_;
  const std::int64_t piece_bytes_;
  Phases& phases_;
  const Memory raw_;                     // the user's, as it is there
  const TypeMap dense_;                  // of a piece
  std::unique_ptr<std::byte[]> buffer_;  // two pieces of the host's memory that is not dense
  // The allocation of the GPU that the memory begins in: within it gaps may be read. 0 bytes where
  // the driver does not tell.
  std::uintptr_t range_begin_ = 0;
  std::size_t range_bytes_ = 0;
  std::vector<Scattered> group_;    // small extents near each other, not copied yet
  std::uintptr_t group_begin_ = 0;  // what they span
  std::uintptr_t group_end_ = 0;
  std::vector<Scattered> scattered_;  // in the room, or on their way there
  std::int64_t room_used_ = 0;
  std::deque<cuda::Copy> copies_;  // under way
  int error_ = 0;
  std::uint64_t gpu_bytes_ = 0;
  std::optional<cuda::StreamCopies> engine_;  // gone, and so the copies are over, before the rest
};

// Finds GPUs, and keeps what transfers of one file need for them.
class GpuStaging {
 public:
  // Whose memory a request is about. Throws ferry::Error (ENOTSUP, EIO), as cuda::Gpus does.
  Gpu owner_of(const Request& request);
  // Throws std::system_error.
  const PinnedPieces& pinned(const Gpu& gpu, std::int64_t piece_bytes);

 private:
  cuda::Gpus gpus_;
  std::optional<PinnedPieces> pinned_;
};

}  // namespace ferry::collective
