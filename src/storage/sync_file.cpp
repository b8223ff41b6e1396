#include "storage/sync_file.hpp"

#include <algorithm>
#include <atomic>

#include <ferry/error.hpp>

namespace ferry::storage {

SyncCalls::SyncCalls(Storage& storage, QueueOptions options, Pause* pause) : pause_(pause) {
  options.doorbell = Doorbell{&doorbell_};
  queue_ = storage.make_queue(options);
}

std::int64_t SyncCalls::run(Operation& operation) {
  queue_->submit(operation);
  // What an error left in flight may finish first.
  while (&next() != &operation) {
  }
  return operation.result;
}

std::int64_t SyncCalls::transfer(File& file, Direction direction, void* data, std::uint64_t bytes,
                                 std::uint64_t offset) {
  std::uint64_t moved = 0;
  while (moved < bytes) {
    iovec vector{static_cast<std::byte*>(data) + moved, bytes - moved};
    const std::int64_t result = run({.kind = kind_of(direction),
                                     .file = &file,
                                     .offset = static_cast<std::int64_t>(offset + moved),
                                     .vectors = {&vector, 1}});
    if (result < 0) return result;
    if (result == 0 && direction == Direction::write) return -EIO;
    if (result == 0) break;
    moved += static_cast<std::uint64_t>(result);
  }
  return static_cast<std::int64_t>(moved);
}

Operation& SyncCalls::next() {
  bool looks = pause_ != nullptr;
  for (bool again = false;; again = true) {
    const std::chrono::nanoseconds timeout = looks ? std::chrono::hours(0) : std::chrono::hours(1);
    if (Operation* operation = next_within(timeout); operation != nullptr) return *operation;
    looks = pause_ != nullptr && pause_(again);
  }
}

Operation* SyncCalls::next_within(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds look_again = std::chrono::seconds(1);
  for (Clock::time_point until;;) {
    const std::uint32_t seen = std::atomic_ref(doorbell_).load(std::memory_order_acquire);
    queue_->flush();  // some may have been held back
    if (Operation* operation = queue_->reap(); operation != nullptr) return operation;
    const auto now = Clock::now();  // not before: most have finished at the first look
    if (until == Clock::time_point()) until = now + timeout;
    if (now >= until) return nullptr;
    queue_->wait(seen, std::min(look_again, std::chrono::nanoseconds(until - now)));
  }
}

SyncFile::~SyncFile() {
  if (is_open()) close();
}

std::int64_t SyncFile::open(const std::string& path, int flags, std::uint32_t mode,
                            Layout* layout) {
  Operation operation{
      .kind = Kind::open, .path = path.c_str(), .layout = layout, .flags = flags, .mode = mode};
  const std::int64_t result = calls_.run(operation);
  file_ = std::move(operation.opened);
  return result;
}

std::int64_t SyncFile::read(void* data, std::uint64_t bytes, std::uint64_t offset) {
  return calls_.transfer(*file_, Direction::read, data, bytes, offset);
}

// Nothing is stored in the memory: an iovec is for both ways.
std::int64_t SyncFile::write(const void* data, std::uint64_t bytes, std::uint64_t offset) {
  return calls_.transfer(*file_, Direction::write, const_cast<void*>(data), bytes, offset);
}

std::int64_t SyncFile::status(Status& status) {
  Operation operation{.kind = Kind::file_status, .file = get()};
  const std::int64_t result = calls_.run(operation);
  status = operation.status;
  return result;
}

std::int64_t SyncFile::close() {
  return calls_.run({.kind = Kind::close, .file = file_.release()});
}

std::int64_t SyncFile::run(Kind kind, std::uint64_t offset) {
  return calls_.run({.kind = kind, .file = get(), .offset = static_cast<std::int64_t>(offset)});
}

std::int64_t checked(std::int64_t result, const std::string& what) {
  if (result < 0) throw Error(static_cast<int>(-result), what);
  return result;
}

}  // namespace ferry::storage
