#include "storage/bounded_queue.hpp"

#include <cerrno>

#include "storage/remote_file.hpp"

namespace ferry::storage {

BoundedQueue::~BoundedQueue() {
  for (const auto& [operation, call] : calls_)
    call->end_early(-ECANCELED);
  await_others();
}

Operation* BoundedQueue::reap() {
  Operation* operation = InboxQueue::reap();
  if (operation != nullptr) calls_.erase(operation);
  return operation;
}

void BoundedQueue::cancel(Operation& operation) {
  if (operation.kind == Kind::close) return;
  if (const auto found = calls_.find(&operation); found != calls_.end()) {
    found->second->end_early(-ECANCELED);
  }
}

void BoundedQueue::start(Operation& operation) {
  if (operation.file != nullptr && operation.kind != Kind::close) {
    if (const int error = static_cast<RemoteFile*>(operation.file)->refusal(operation);
        error != 0) {
      operation.result = error;
      count_inline_operation();
      finish(operation);
      return;
    }
  }
  const std::shared_ptr<BoundedCall> call = make_call(operation);
  calls_.emplace(&operation, call);
  count_pool_operation();
  give_away();
  pool_.execute(call);
}

}  // namespace ferry::storage
