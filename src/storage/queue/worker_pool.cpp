#include "storage/queue/worker_pool.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <new>
#include <utility>

#include "base/futex.hpp"

namespace ferry::storage {

void Doorbell::ring() const {
  std::atomic_ref<std::uint32_t>(*word).fetch_add(1, std::memory_order_release);
  futex_wake_all(word);
}

// A stack that many workers push to and one queue empties completely; the release of the push makes
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

void WorkerPool::execute(Operation& operation, Inbox& inbox, Place place) {
  {
    const std::lock_guard lock(mutex_);
    if (put(place, Job{&operation, &inbox, ++last_number_})) return;
  }
  refuse(operation, inbox, -EAGAIN);
}

bool WorkerPool::put(Place place, Job job) {
  Line& line = lines_[place];
  try {
    line.jobs.push_back(job);
  } catch (const std::bad_alloc&) {
    drop_if_unused(place);
    throw;
  }
  if (!grow(line)) {  // there is no thread, so it is the line's only operation
    lines_.erase(place);
    return false;
  }
  more_.notify_one();
  return true;
}

// Not under the mutex: an operation that closes a file has to do so, and may hang.
void WorkerPool::refuse(Operation& operation, Inbox& inbox, int error) const {
  operation.result = error;
  if (operation.kind == Kind::close) execute_(operation);
  inbox.put(operation);
}

// Beyond threads_max(), only where fewer threads are idle than lines have none: those come first.
// Returns false if no thread is there and none can be started.
bool WorkerPool::grow(const Line& line) {
  const bool has_none = line.busy == 0 && line.jobs.size() == 1;
  const bool grows = threads_.size() < threads_max() ? idle_ < executable()
                                                     : has_none && idle_ < lines_without_a_thread();
  if (!grows) return true;
  try {
    threads_.emplace_back([this] { work(); });
    ++idle_;
  } catch (const std::exception&) {  // those that are there must do
    return !threads_.empty();
  }
  return true;
}

std::size_t WorkerPool::lines_without_a_thread() const {
  return static_cast<std::size_t>(std::count_if(
      lines_.begin(), lines_.end(),
      [](const auto& entry) { return entry.second.busy == 0 && !entry.second.jobs.empty(); }));
}

// How many of the line's operations may be executed now. When all threads except those kept for
// lines without one are busy, only such a line has its turn.
std::size_t WorkerPool::executable(const Line& line) const {
  const bool full = busy_ >= threads_max();
  const unsigned most = full ? 1 : place_max_;
  return std::min<std::size_t>(line.jobs.size(), most - std::min(line.busy, most));
}

std::size_t WorkerPool::executable() const {
  std::size_t count = 0;
  for (const auto& [place, line] : lines_)
    count += executable(line);
  return count;
}

// Lines without a thread come first: another line must not take the thread meant for them.
WorkerPool::Lines::iterator WorkerPool::next_line() {
  const auto rank = [](const Line& line) {
    return std::pair(line.busy > 0, line.jobs.front().number);
  };
  auto next = lines_.end();
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    if (executable(line->second) == 0) continue;
    if (next == lines_.end() || rank(line->second) < rank(next->second)) next = line;
  }
  return next;
}

void WorkerPool::leave_line(Place place) {
  --lines_.find(place)->second.busy;
  --busy_;
  drop_if_unused(place);
}

void WorkerPool::drop_if_unused(Place place) {
  const auto line = lines_.find(place);
  if (line->second.is_unused()) lines_.erase(line);
}

bool WorkerPool::withdraw(Operation& operation) {
  const std::lock_guard lock(mutex_);
  for (auto& [place, line] : lines_) {
    const auto found = std::find_if(line.jobs.begin(), line.jobs.end(),
                                    [&](const Job& job) { return job.operation == &operation; });
    if (found == line.jobs.end()) continue;
    line.jobs.erase(found);
    drop_if_unused(place);
    return true;
  }
  return false;
}

unsigned WorkerPool::withdraw_all(const Inbox& inbox) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (auto& [place, line] : lines_)
    count += std::erase_if(line.jobs, [&](const Job& job) {
      return job.inbox == &inbox && job.operation->kind != Kind::close;
    });
  std::erase_if(lines_, [](const auto& entry) { return entry.second.is_unused(); });
  return static_cast<unsigned>(count);
}

Place WorkerPool::find(const Operation& operation, Place place) const {
  if (find_ == nullptr) return place;
  try {
    return find_(operation, place);
  } catch (const std::bad_alloc&) {
    return place;
  }
}

void WorkerPool::work() {
  name_this_thread("ferry-worker");
  run_this_thread_on(cpus_);
  std::unique_lock lock(mutex_);
  for (;;) {
    auto line = lines_.end();
    more_.wait(lock, [&] { return (line = next_line()) != lines_.end() || closing_; });
    --idle_;
    if (line == lines_.end()) return;
    const Place place = line->first;
    Job job = line->second.jobs.front();
    line->second.jobs.pop_front();
    ++line->second.busy;
    ++busy_;
    lock.unlock();
    const Place lies_at = job.found ? place : find(*job.operation, place);
    if (lies_at == place) {
      execute_(*job.operation);
      job.inbox->put(*job.operation);
    }
    lock.lock();
    leave_line(place);
    ++idle_;
    if (lies_at == place) continue;
    // At the end of the line: those that others count on having a thread for keep it.
    job.found = true;
    job.number = ++last_number_;
    try {
      put(lies_at, job);  // this thread is there
    } catch (const std::bad_alloc&) {
      --idle_;
      lock.unlock();
      refuse(*job.operation, *job.inbox, -ENOMEM);
      lock.lock();
      ++idle_;
    }
  }
}

}  // namespace ferry::storage
