#include "mpiio/moved_data.hpp"

#include <cerrno>
#include <utility>

#include <ferry/byte_order.hpp>
#include <ferry/error.hpp>

#include "collective/memory.hpp"

namespace ferry::mpiio {
namespace {

// Data is converted by the host.
void require_host_memory(const Arguments& arguments) {
  MPI_Count lower = 0;
  MPI_Count bytes = 0;
  PMPI_Type_get_true_extent_x(arguments.type, &lower, &bytes);
  // Beside MPI_BOTTOM the datatype has the address.
  const auto first =
      reinterpret_cast<std::uintptr_t>(arguments.buffer) + static_cast<std::uintptr_t>(lower);
  if (collective::is_gpu_memory(reinterpret_cast<const void*>(first)))
    throw Error(ENOTSUP, "memory of a GPU, whose data would have to be converted");
}

}  // namespace

MovedData::MovedData(const Arguments& arguments)
    : arguments_(arguments),
      base_(arguments.buffer),
      map_(map_of(arguments.type)),
      count_(arguments.count) {}

MovedData::MovedData(const Arguments& arguments, Direction direction,
                     std::shared_ptr<const DataRepresentation> conversion,
                     std::int64_t swapped_bytes, bool is_begun)
    : arguments_(arguments),
      direction_(direction),
      conversion_(std::move(conversion)),
      kept_type_(is_begun ? std::make_unique<const KeptType>(arguments.type) : nullptr),
      swapped_bytes_(swapped_bytes),
      map_(map_of(MPI_BYTE)),
      count_(arguments.count * conversion_->size_in_file(arguments.type)) {
  require_host_memory(arguments);
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count_));
  base_ = buffer_.get();
  if (direction == Direction::write) {
    conversion_->to_file(arguments.buffer, arguments.count, arguments.type, buffer_.get());
    swap(count_);
  }
}

void MovedData::swap(std::int64_t bytes) const {
  if (swapped_bytes_ == 1) return;
  const auto element = static_cast<std::size_t>(swapped_bytes_);
  swap_bytes(buffer_.get(), static_cast<std::size_t>(bytes) / element * element, element);
}

std::int64_t MovedData::finish(std::int64_t moved) const {
  if (conversion_ == nullptr) return moved;
  if (direction_ == Direction::read) {
    moved -= moved % swapped_bytes_;  // the file may end within an element
    swap(moved);
    return conversion_->from_file(arguments_.buffer, arguments_.count, type(), buffer_.get(),
                                  moved);
  }
  return moved == 0 ? 0 : size_of(type()) * arguments_.count;
}

}  // namespace ferry::mpiio
