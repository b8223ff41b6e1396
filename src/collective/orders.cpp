#include "collective/orders.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <ferry/collective.hpp>

#include "base/caught_error.hpp"
#include "base/forks.hpp"

namespace ferry::collective {
namespace {

struct OpenOrders {
  std::mutex mutex;
  std::vector<std::weak_ptr<Orders>> all;
};

// Files without a thread that have orders which are not done.
std::atomic<int> files_under_way = 0;

// A thread of one file leaves those of others alone: their storages may keep it waiting.
thread_local bool is_progress_thread = false;

// While start() executes an order on a fiber.
thread_local bool is_beginning = false;

// Calls visit() for those of each open file, without memory and without the lock.
template <class Visit>
void visit_open(const Visit& visit) {
  auto& open = of_this_process<OpenOrders>();
  for (std::size_t i = 0;; ++i) {
    std::shared_ptr<Orders> orders;
    {
      const std::lock_guard lock(open.mutex);
      if (i >= open.all.size()) return;
      orders = open.all[i].lock();
    }
    if (orders) visit(*orders);
  }
}

// Executes an order, whatever thread and stack this is.
void execute(void* argument) {
  Order& order = *static_cast<Order*>(argument);
  try {
    order.result = order.work();
  } catch (...) {
    order.error = std::current_exception();
  }
  order.work = {};
}

// How long a waiting thread sleeps between looks: longer and longer.
class Naps {
 public:
  void take() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 5 / 4, longest);
  }
  void begin_again() { next_ = shortest; }

 private:
  static constexpr std::chrono::microseconds shortest{20};
  static constexpr std::chrono::microseconds longest{500};
  std::chrono::microseconds next_ = shortest;
};

// Naps, if all that go on here have looked for long.
void nap_if(bool tired) {
  thread_local Naps naps;
  if (tired) {
    naps.take();
  } else {
    naps.begin_again();
  }
}

}  // namespace

Orders::~Orders() {
  finish_all();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Orders::Prepared Orders::prepare() {
  if (spare_.empty()) spare_.push_back(std::make_shared<Order>());
  return {std::make_shared<Order>()};
}

std::shared_ptr<Order> Orders::start(Prepared prepared) {
  std::shared_ptr<Order> order = prepared.front();
  {
    const std::lock_guard lock(mutex_);
    try {
      // What a fiber has begun it ends.
      if (own_thread_ && !thread_.joinable() && queue_.empty())
        thread_ = std::thread(&Orders::serve, this);
    } catch (...) {
      static_cast<void>(caught_error());
    }
    if (!thread_.joinable() && queue_.empty()) ++files_under_way;
    queue_.splice(queue_.end(), prepared);
  }
  changed_.notify_all();
  begin(*order);
  return order;
}

void Orders::begin(const Order& order) {
  std::unique_lock lock(mutex_);
  if (thread_.joinable() || is_running_ || queue_.empty()) return;
  if (queue_.front().get() != &order || !has_fiber()) return;
  is_beginning = true;
  carry_on(lock, false);
  is_beginning = false;
}

void Orders::end_of_beginning() {
  if (is_beginning) Fiber::suspend(false);
}

void Orders::run_first(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Order> order = queue_.front();
  is_running_ = true;
  lock.unlock();
  execute(order.get());
  lock.lock();
  is_running_ = false;
  end_first(lock);
}

bool Orders::has_fiber() {
  if (!fiber_) fiber_ = Fiber::make();
  return fiber_ != nullptr;
}

Orders::Turn Orders::carry_on(std::unique_lock<std::mutex>& lock, bool may_block) {
  if (fiber_->is_idle()) fiber_->start(execute, queue_.front().get());
  is_running_ = true;
  lock.unlock();
  const bool is_over = fiber_->resume(may_block);
  lock.lock();
  is_running_ = false;
  if (!is_over) return fiber_->is_tired() ? Turn::tired : Turn::on;
  end_first(lock);
  return Turn::on;
}

void Orders::end_first(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Order> order = queue_.front();
  order->done = true;
  if (order->error) {
    failed_.splice(failed_.end(), queue_, queue_.begin());
  } else {
    queue_.pop_front();
  }
  if (!thread_.joinable() && queue_.empty()) --files_under_way;
  changed_.notify_all();
  if (!order->then) return;
  lock.unlock();
  order->then();  // it is done, so nobody else has this any more
  lock.lock();
}

void Orders::serve() {
  is_progress_thread = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    run_first(lock);
  }
}

Orders::Turn Orders::take_turn() {
  std::unique_lock lock(mutex_);
  if (thread_.joinable() || is_running_ || queue_.empty() || !has_fiber()) return Turn::none;
  return carry_on(lock, false);
}

Orders::Turn Orders::take_turns() {
  auto turns = Turn::none;
  visit_open([&](Orders& orders) { turns = std::max(turns, orders.take_turn()); });
  return turns;
}

bool Orders::pause(bool tired) {
  if (Fiber::is_here()) return Fiber::suspend(tired);
  if (is_progress_thread || files_under_way == 0) return false;
  const Turn turns = take_turns();
  if (turns == Turn::none) return false;
  nap_if(tired && turns == Turn::tired);
  return true;
}

void Orders::finish_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!done()) {
    const bool is_alone = files_under_way == (thread_.joinable() ? 0 : 1);
    if (thread_.joinable() || is_running_) {
      constexpr std::chrono::milliseconds look_again{1};
      if (is_alone && thread_.joinable()) {
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      take_turns();
      lock.lock();
      if (!done()) changed_.wait_for(lock, look_again);
    } else if (!has_fiber()) {
      run_first(lock);
    } else if (is_alone) {
      carry_on(lock, true);
    } else {
      lock.unlock();
      nap_if(take_turns() == Turn::tired);
      lock.lock();
    }
  }
}

bool Orders::test(const Order& order) {
  constexpr int looks_max = 20;
  {
    std::unique_lock lock(mutex_);
    if (order.done || thread_.joinable()) return order.done;
    if (!has_fiber()) {
      lock.unlock();
      finish(order);
      return true;
    }
  }
  for (int looks = 0; looks < looks_max && take_turns() == Turn::on; ++looks) {
    const std::lock_guard lock(mutex_);
    if (order.done) return true;
  }
  const std::lock_guard lock(mutex_);
  return order.done;
}

void Orders::finish(const Order& order) {
  finish_until([&] { return order.done; });
}

void Orders::when_done(Order& order, std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!order.done) {
      order.then = std::move(call);
      return;
    }
  }
  call();
}

void Orders::finish_all() {
  finish_until([&] { return queue_.empty(); });
}

void Orders::add(const std::shared_ptr<Orders>& orders) {
  complete_before_finalize();
  auto& open = of_this_process<OpenOrders>();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.all, [](const auto& one) { return one.expired(); });
  open.all.push_back(orders);
}

void Orders::finish_those_of_all_files() {
  visit_open([](Orders& orders) { orders.finish_all(); });
}

int Orders::untold_error() {
  const std::lock_guard lock(mutex_);
  for (const auto& order : failed_) {
    if (order->told) continue;
    try {
      std::rethrow_exception(order->error);
    } catch (const Error& error) {
      return error.code().value();
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
  }
  return 0;
}

std::int64_t Transfer::wait() {
  if (!order_) return 0;
  orders_->finish(*order_);
  if (order_->error) {
    order_->told = true;
    std::rethrow_exception(order_->error);
  }
  return order_->result;
}

bool Transfer::test() {
  return !order_ || orders_->test(*order_);
}

void Transfer::when_done(std::function<void()> call) {
  if (order_) {
    orders_->when_done(*order_, std::move(call));
  } else {
    call();
  }
}

}  // namespace ferry::collective
