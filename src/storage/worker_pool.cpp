#include "storage/worker_pool.hpp"

#include <algorithm>
#include <atomic>

#include "base/futex.hpp"

namespace ferry::storage {

void Doorbell::ring() const {
  std::atomic_ref<std::uint32_t>(*word).fetch_add(1, std::memory_order_release);
  futex_wake_all(word);
}

// A stack that many workers push to and one queue empties at once; the release of the push makes
// the result visible to the acquire of the take.
void Inbox::put(Operation& operation) {
  users_.fetch_add(1, std::memory_order_relaxed);
  Operation* first = first_.load(std::memory_order_relaxed);
  do {
    operation.next = first;
  } while (!first_.compare_exchange_weak(first, &operation, std::memory_order_release,
                                         std::memory_order_relaxed));
  doorbell_.ring();
  users_.fetch_sub(1, std::memory_order_release);  // the last touch
}

Operation* Inbox::take_all() {
  if (empty()) return nullptr;
  return first_.exchange(nullptr, std::memory_order_acquire);
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

void WorkerPool::execute(Operation& operation, Inbox& inbox) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(Job{&operation, &inbox});
    if (idle_ < jobs_.size() && threads_.size() < threads_max_) {
      threads_.emplace_back([this] { work(); });
    }
  }
  more_.notify_one();
}

bool WorkerPool::withdraw(Operation& operation) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const Job& job) { return job.operation == &operation; });
  if (found == jobs_.end()) return false;
  jobs_.erase(found);
  return true;
}

unsigned WorkerPool::withdraw_all(const Inbox& inbox) {
  const std::lock_guard lock(mutex_);
  return static_cast<unsigned>(
      std::erase_if(jobs_, [&](const Job& job) { return job.inbox == &inbox; }));
}

void WorkerPool::work() {
  name_this_thread("ferry-worker");
  run_this_thread_on(cpus_);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    more_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.erase(jobs_.begin());
    lock.unlock();
    execute_(*job.operation);
    job.inbox->put(*job.operation);
    lock.lock();
  }
}

}  // namespace ferry::storage
