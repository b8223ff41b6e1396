#include "storage/queue/bounded_queue.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include "storage/remote_file.hpp"

namespace ferry::storage {

BoundedQueue::~BoundedQueue() {
  if (!pool_.made_here()) {  // in a child of fork(): the calls in flight are the parent's
    static_cast<void>(new (std::nothrow) decltype(calls_)(std::move(calls_)));
    return;
  }
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
  if (operation.kind == Kind::close || !pool_.made_here()) return;
  if (const auto found = calls_.find(&operation); found != calls_.end()) {
    found->second->end_early(-ECANCELED);
  }
}

int BoundedQueue::refusal(const Operation& operation) const {
  if (!pool_.made_here() || owner_.is_ancestor()) return -OwnerProcess::refused;
  if (operation.file == nullptr || operation.kind == Kind::close) return 0;
  return static_cast<RemoteFile*>(operation.file)->refusal(operation);
}

void BoundedQueue::end_here(Operation& operation, int result) {
  if (operation.kind == Kind::close) {  // always takes the file
    const std::unique_ptr<File> file(operation.file);
    result = 0;
  }
  operation.result = result;
  count_inline_operation();
  finish(operation);
}

void BoundedQueue::start(Operation& operation) {
  if (const int error = refusal(operation); error != 0) {
    end_here(operation, error);
    return;
  }
  const std::shared_ptr<BoundedCall> call = make_call(operation);
  calls_.emplace(&operation, call);
  count_pool_operation();
  give_away();
  pool_.execute(call);
}

}  // namespace ferry::storage
