// Transfers in which some rank uses GPU memory.
#include <algorithm>

#include "collective/impl.hpp"

namespace ferry::collective {
namespace {

constexpr std::int64_t piece_bytes_max = 16 << 20;
constexpr std::int64_t piece_bytes_min = 4096;

// A few windows, so that rounds overlap within a piece. The same on all ranks; whole elements.
std::int64_t piece_bytes_of(const Settings& settings) {
  const std::int64_t bytes = std::min(settings.buffer_bytes, piece_bytes_max / 4) * 4;
  return std::max(bytes - bytes % element_bytes_max, piece_bytes_min);
}

}  // namespace

// Null for host memory. Does everything that may fail on one rank only, before the ranks agree.
std::unique_ptr<StagedMemory> File::Impl::stage(Direction direction, const Request& request,
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
int File::Impl::move_staged(Direction direction, const Request& request, const Agreed& agreed,
                            std::unique_ptr<StagedMemory> memory) {
  const std::int64_t piece_bytes = piece_bytes_of(settings_);
  if (memory == nullptr) {
    memory =
        std::make_unique<StagedMemory>(request, direction, nullptr, nullptr, piece_bytes, phases_);
  }
  const std::int64_t pieces = (agreed.bytes_max + piece_bytes - 1) / piece_bytes;
  const int error = memory->move_all(pieces, [&](const Request& part, int failed) {
    const Agreed piece = agree_on_piece(direction, part, failed, agreed.file_bytes);
    return piece.end > piece.begin ? move(method_, direction, part, piece) : 0;
  });
  counts_.gpu_bytes += memory->gpu_bytes();
  return error;
}

int File::Impl::move_staged_alone(Direction direction, const Request& request,
                                  StagedMemory& memory) {
  const std::int64_t piece_bytes = piece_bytes_of(settings_);
  const std::int64_t pieces = (request.bytes + piece_bytes - 1) / piece_bytes;
  const int error = memory.move_all(pieces, [&](const Request& part, int failed) {
    return failed != 0 ? failed : move_alone(direction, part);
  });
  counts_.gpu_bytes += memory.gpu_bytes();
  return error;
}

}  // namespace ferry::collective
