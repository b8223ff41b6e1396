#include "storage/queue/bounded_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "storage/remote_call.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned late_max = 64;
constexpr std::chrono::seconds idle_time{1};          // without a call a thread ends
constexpr std::chrono::milliseconds retry_time{100};  // after a thread could not be started
constexpr std::chrono::milliseconds copy_time{10};    // after a call was found at its memory

}  // namespace

void BoundedCall::end_early(int error) {
  std::unique_ptr<File> unwanted;  // gone after the lock
  const std::lock_guard lock(mutex_);
  if (!over()) answer(error, unwanted);
}

bool BoundedCall::try_end_early(int error) {
  std::unique_ptr<File> unwanted;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return over();
  if (!over()) answer(error, unwanted);
  return true;
}

void BoundedCall::cancel() {
  cancelled_.exchange(true, std::memory_order_acq_rel);
  try_end_early(-ECANCELED);
}

// `unwanted`: the file of an open that has just succeeded.
void BoundedCall::answer(int error, std::unique_ptr<File>& unwanted) {
  over_.store(true, std::memory_order_release);
  unwanted = std::move(operation_.opened);
  // Before the answer: the next query must find it.
  if (changing_ != nullptr) late_.emplace(changing_, error);
  operation_.result = error;
  inbox_.put(operation_);
}

void BoundedCall::finish(std::int64_t result) {
  const std::lock_guard lock(mutex_);
  if (over()) return;
  over_.store(true, std::memory_order_release);
  operation_.result = result;
  inbox_.put(operation_);
}

int BoundedCall::begin_change(const std::shared_ptr<LateChanges>& file) {
  int error = 0;
  const bool goes_on = touch([&](Operation& /*operation*/) {
    error = file->error();
    if (error == 0) changing_ = file;
  });
  if (goes_on) return error;
  end_change();
  return -ECANCELED;
}

void BoundedCall::end_change() {
  const std::lock_guard lock(mutex_);
  changing_.reset();
  late_.reset();
}

BoundedPool::BoundedPool(unsigned threads_max, CpuSet cpus)
    : threads_max_(threads_max), cpus_(std::move(cpus)) {}

BoundedPool::~BoundedPool() {
  if (!made_here()) {
    // The threads are the parent's, and their locks stay locked.
    static_cast<void>(new (std::nothrow) std::shared_ptr<State>(state_));
    static_cast<void>(new (std::nothrow) std::thread(std::move(watcher_)));
    return;
  }
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->more.notify_all();
  state_->changed.notify_all();
  state_->changed.wait(lock, [this] { return state_->threads == state_->late; });
  // All of them are over. Late threads would keep what they have until they return.
  state_->waiting.clear();
  lock.unlock();
  if (watcher_.joinable()) watcher_.join();
}

void BoundedPool::execute(const std::shared_ptr<BoundedCall>& call) {
  const std::lock_guard lock(state_->mutex);
  int error = 0;
  try {
    state_->waiting.push_back(call);
    grow();
  } catch (const std::system_error& refused) {
    error = -refused.code().value();
  } catch (const std::bad_alloc&) {
    error = -ENOMEM;
  }
  const bool waits = !state_->waiting.empty() && state_->waiting.back() == call;
  if (error != 0 && (!waits || state_->threads == state_->late)) {  // there is none to do it
    if (waits) state_->waiting.pop_back();
    call->end_early(error);
    return;
  }
  state_->more.notify_one();
  if (call->deadline() < state_->next_look) state_->changed.notify_all();
}

void BoundedPool::grow() {
  if (!watcher_.joinable())
    watcher_ = std::thread(
        [state = state_, cpus = cpus_, max = threads_max_] { watch(state, cpus, max); });
  const unsigned useful = state_->threads - state_->late;
  if (state_->idle >= state_->waiting.size() || useful >= threads_max_) return;
  if (state_->late >= late_max) return;
  start_thread(state_, cpus_, threads_max_);
}

// Under the mutex.
void BoundedPool::start_thread(const std::shared_ptr<State>& state, const CpuSet& cpus,
                               unsigned threads_max) {
  // The thread itself needs no memory for its calls.
  state->running.reserve(state->threads + 1);
  state->copying.reserve(state->threads + 1);
  std::thread([state, cpus, threads_max] { work(state, cpus, threads_max); }).detach();
  ++state->threads;
}

void BoundedPool::work(const std::shared_ptr<State>& state, const CpuSet& cpus,
                       unsigned threads_max) {
  name_this_thread("ferry-calls");
  run_this_thread_on(cpus);
  std::vector<char> memory;
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->more.wait_for(lock, idle_time,
                         [&] { return state->closing || !state->waiting.empty(); });
    --state->idle;
    if (state->waiting.empty()) break;
    const std::shared_ptr<BoundedCall> call = std::move(state->waiting.front());
    state->waiting.pop_front();
    if (call->over()) continue;
    state->running.push_back(call);
    if (call->help(BoundedCall::Clock::now()) < state->next_look) state->changed.notify_all();
    lock.unlock();
    const std::int64_t result = call->work(memory);
    lock.lock();
    if (std::erase(state->running, call) == 0) {
      --state->late;  // it came back after all; another may have its place
      if (std::erase(state->copying, call) != 0) {
        lock.unlock();
        call->finish(result);
        lock.lock();
      }
      if (state->threads - state->late > threads_max) break;
      continue;
    }
    lock.unlock();
    call->finish(result);
    lock.lock();
  }
  --state->threads;
  state->changed.notify_all();
}

// Ends calls at their deadlines, and counts the threads that still have them as late.
void BoundedPool::watch(const std::shared_ptr<State>& state, const CpuSet& cpus,
                        unsigned threads_max) {
  name_this_thread("ferry-deadlines");
  std::unique_lock lock(state->mutex);
  while (!state->closing || state->threads != state->late) {
    const auto now = BoundedCall::Clock::now();
    state->next_look = now + std::chrono::hours(1);
    const auto ended = [&](const std::shared_ptr<BoundedCall>& call) {
      const bool over = call->try_end_early(-ETIMEDOUT);
      if (!over) state->next_look = std::min(state->next_look, now + copy_time);
      return over;
    };
    const auto expired = [&](const std::shared_ptr<BoundedCall>& call) {
      // At the end, cancelled calls do not matter.
      if ((state->closing && call->over()) || call->deadline() <= now) return true;
      state->next_look = std::min(state->next_look, call->deadline());
      return false;
    };
    std::erase_if(state->copying, ended);
    std::erase_if(state->waiting, [&](const auto& call) { return expired(call) && ended(call); });
    state->late += static_cast<unsigned>(std::erase_if(state->running, [&](const auto& call) {
      if (!expired(call)) {
        state->next_look = std::min(state->next_look, call->help(now));
        return false;
      }
      if (!ended(call)) state->copying.push_back(call);
      return true;
    }));
    // Calls that wait behind the ones that are late now get threads in their place.
    try {
      for (std::size_t left = state->waiting.size(); left > state->idle && state->late < late_max &&
                                                     state->threads - state->late < threads_max;
           --left)
        start_thread(state, cpus, threads_max);
    } catch (const std::exception&) {  // std::system_error, std::bad_alloc: they keep waiting
      state->next_look = std::min(state->next_look, now + retry_time);
    }
    if (state->closing) state->changed.notify_all();
    if (state->closing && state->threads == state->late) break;
    state->changed.wait_until(lock, state->next_look);
  }
}

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
    found->second->cancel();
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
    // Without memory, nobody asks the library what became of earlier writes.
    if (result != -ENOMEM) result = 0;
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
  std::shared_ptr<BoundedCall> call;
  try {
    call = make_call(operation);
    calls_.emplace(&operation, call);
  } catch (const std::bad_alloc&) {
    end_here(operation, -ENOMEM);
    return;
  }
  if (operation.kind == Kind::close) call->take(std::unique_ptr<File>(operation.file));
  count_pool_operation();
  give_away();
  pool_.execute(call);
}

}  // namespace ferry::storage
