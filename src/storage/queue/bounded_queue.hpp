// The queue of a storage whose calls run on a BoundedPool.
#pragma once

#include <memory>
#include <unordered_map>

#include "storage/owner_process.hpp"
#include "storage/queue/bounded_pool.hpp"
#include "storage/queue/inbox_queue.hpp"

namespace ferry::storage {

class BoundedQueue : public InboxQueue {
 public:
  BoundedQueue(BoundedPool& pool, const OwnerProcess& owner, const QueueOptions& options)
      : InboxQueue(options), pool_(pool), owner_(owner) {}
  ~BoundedQueue() override;

  Operation* reap() override;
  void cancel(Operation& operation) override;

 private:
  virtual std::shared_ptr<BoundedCall> make_call(Operation& operation) = 0;
  void start(Operation& operation) override;
  // 0, or the operation's immediate result.
  int refusal(const Operation& operation) const;
  void end_here(Operation& operation, int result);

  BoundedPool& pool_;
  const OwnerProcess& owner_;
  std::unordered_map<Operation*, std::shared_ptr<BoundedCall>> calls_;  // in flight
};

}  // namespace ferry::storage
