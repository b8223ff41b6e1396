#include <ferry/collective.hpp>

#include "collective/impl.hpp"

namespace ferry::collective {
namespace {

std::int64_t length_of(auto data) {
  return static_cast<std::int64_t>(data.size());
}

}  // namespace

File::File(MPI_Comm communicator, const std::string& path, int flags, const Options& options)
    : File(communicator, path, flags, options, nullptr) {}

File::File(MPI_Comm communicator, const std::string& path, int flags, const Options& options,
           std::shared_ptr<storage::Storage> storage)
    : impl_(Impl::make(communicator, path, flags, options, std::move(storage))) {}

File::~File() = default;

void File::set_view(std::int64_t displacement, const TypeMap& view,
                    const Representation& representation) {
  impl_->meet(Call::set_view,
              [&] { impl_->set_view_of_group(displacement, view, representation); });
}

std::int64_t File::write_at_all(std::int64_t offset, std::span<const std::byte> data) {
  return impl_->transfer_all(Direction::write, offset, data.data(), Impl::all_bytes(),
                             length_of(data));
}

std::int64_t File::write_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                                std::int64_t count) {
  return impl_->transfer_all(Direction::write, offset, base, memory, count);
}

std::int64_t File::read_at_all(std::int64_t offset, std::span<std::byte> data) {
  return impl_->transfer_all(Direction::read, offset, data.data(), Impl::all_bytes(),
                             length_of(data));
}

std::int64_t File::read_at_all(std::int64_t offset, void* base, const TypeMap& memory,
                               std::int64_t count) {
  return impl_->transfer_all(Direction::read, offset, base, memory, count);
}

std::int64_t File::write_all(std::span<const std::byte> data) {
  return impl_->transfer_next(Direction::write, data.data(), length_of(data));
}

std::int64_t File::read_all(std::span<std::byte> data) {
  return impl_->transfer_next(Direction::read, data.data(), length_of(data));
}

Transfer File::iwrite_at_all(std::int64_t offset, std::span<const std::byte> data) {
  return iwrite_at_all(offset, data.data(), Impl::all_bytes(), length_of(data));
}

Transfer File::iwrite_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                             std::int64_t count) {
  return {impl_->orders(), impl_->start_all(Direction::write, offset, base, memory, count)};
}

Transfer File::iread_at_all(std::int64_t offset, std::span<std::byte> data) {
  return iread_at_all(offset, data.data(), Impl::all_bytes(), length_of(data));
}

Transfer File::iread_at_all(std::int64_t offset, void* base, const TypeMap& memory,
                            std::int64_t count) {
  return {impl_->orders(), impl_->start_all(Direction::read, offset, base, memory, count)};
}

Transfer File::iwrite_all(std::span<const std::byte> data) {
  return {impl_->orders(), impl_->start_next(Direction::write, data.data(), length_of(data))};
}

Transfer File::iread_all(std::span<std::byte> data) {
  return {impl_->orders(), impl_->start_next(Direction::read, data.data(), length_of(data))};
}

std::int64_t File::write_at(std::int64_t offset, std::span<const std::byte> data) {
  return impl_->transfer_here(Direction::write, offset, data.data(), length_of(data));
}

std::int64_t File::read_at(std::int64_t offset, std::span<std::byte> data) {
  return impl_->transfer_here(Direction::read, offset, data.data(), length_of(data));
}

void File::sync() {
  impl_->meet(Call::sync, [&] { impl_->sync_group(); });
}

void File::resize(std::int64_t size_bytes) {
  impl_->meet(Call::resize, [&] { impl_->resize_group(size_bytes); });
}

std::int64_t File::size_bytes() {
  return impl_->meet(Call::size_bytes, [&] { return impl_->size_of_group(); });
}

void File::close() {
  impl_->close();
}

Statistics File::statistics() {
  return impl_->statistics();
}

void File::refuse(Call call, const std::string& why, int error) {
  impl_->refuse(call, why, error);
}

Transfer File::irefuse(Call call, const std::string& why, int error) {
  return {impl_->orders(), impl_->irefuse(call, why, error)};
}

MPI_Info File::hints() const {
  return hints_of(impl_->settings());
}

const std::vector<std::string>& File::warnings() const {
  return impl_->warnings();
}

const std::vector<int>& File::writers() const {
  return impl_->writers();
}

const std::string& File::path() const {
  return impl_->path();
}

const Stripes& File::stripes() const {
  return impl_->stripes();
}

}  // namespace ferry::collective
