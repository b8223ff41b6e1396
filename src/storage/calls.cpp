#include "storage/calls.hpp"

#include <atomic>

namespace ferry::storage {

Calls::Calls(Storage& storage, std::span<std::byte> arena, unsigned depth) {
  QueueOptions options;
  options.doorbell = Doorbell{&doorbell_};
  options.arena = arena;
  options.depth = depth;
  queue_ = storage.make_queue(options);
}

Calls::~Calls() = default;

void Calls::start(Operation& operation) {
  queue_->submit(operation);
  queue_->flush();
}

std::int64_t Calls::run(Operation& operation) {
  start(operation);
  while (next(std::chrono::hours(1)) == nullptr) {
  }
  return operation.result;
}

Operation* Calls::next(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const std::uint32_t seen = std::atomic_ref(doorbell_).load(std::memory_order_acquire);
    queue_->flush();  // some may have been held back
    if (Operation* operation = queue_->reap(); operation != nullptr) return operation;
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return nullptr;
    queue_->wait(seen, until - now);
  }
}

}  // namespace ferry::storage
