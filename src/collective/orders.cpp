#include "collective/orders.hpp"

#include <cerrno>
#include <utility>

#include <ferry/collective.hpp>

#include "base/caught_error.hpp"

namespace ferry::collective {

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
      if (own_thread_ && !thread_.joinable()) thread_ = std::thread(&Orders::serve, this);
    } catch (...) {
      static_cast<void>(caught_error());
    }
    queue_.splice(queue_.end(), prepared);
  }
  changed_.notify_all();
  return order;
}

// Unlocked while the order runs: it stays first in the queue until done.
void Orders::run_next(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Order> order = queue_.front();
  is_running_ = true;
  lock.unlock();
  std::int64_t result = 0;
  std::exception_ptr error;
  try {
    result = order->work();
  } catch (...) {
    error = std::current_exception();
  }
  order->work = {};
  lock.lock();
  order->result = result;
  order->error = error;
  order->done = true;
  is_running_ = false;
  if (error) {
    failed_.splice(failed_.end(), queue_, queue_.begin());
  } else {
    queue_.pop_front();
  }
  if (!order->then) return;
  lock.unlock();
  order->then();  // it is done, so nobody else has this any more
  lock.lock();
}

void Orders::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !is_running_ && (ending_ || !queue_.empty()); });
    if (queue_.empty()) return;
    run_next(lock);
    changed_.notify_all();
  }
}

void Orders::finish_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!done()) {
    if (thread_.joinable() || is_running_) {
      changed_.wait(lock);
    } else {
      run_next(lock);
      changed_.notify_all();
    }
  }
}

bool Orders::test(const Order& order) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    lock.unlock();
    finish(order);
    lock.lock();
  }
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
