// The nonblocking transfers of one file, executed one after another in the order of their starts,
// which is the same on every rank.
//
// If MPI allows several threads, a thread of ours executes them, started by the first order. If
// not, waiting for an order executes it and those before it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace ferry::collective {

struct Order {
  std::function<std::int64_t()> work;
  // Guarded by the mutex until it is done.
  std::int64_t result = 0;
  std::exception_ptr error;
  bool done = false;
  bool told = false;           // the error was reported
  std::function<void()> then;  // to be called when it is done
};

class Orders {
 public:
  explicit Orders(bool own_thread) : own_thread_(own_thread), spare_{std::make_shared<Order>()} {}
  ~Orders();  // completes all of them
  Orders(const Orders&) = delete;
  Orders& operator=(const Orders&) = delete;

  // One to be started, in a list of one.
  using Prepared = std::list<std::shared_ptr<Order>>;
  // Throws std::bad_alloc. Then there is spare(), which needs no memory, once: later calls have to
  // succeed before there is another. Null: none.
  Prepared prepare();
  Prepared spare() { return std::move(spare_); }
  // To be called on the thread that opened the file, as must be the following without a thread of
  // ours. Needs no memory.
  std::shared_ptr<Order> start(Prepared prepared);
  // Whether it is done. Without a thread of ours, completes it.
  bool test(const Order& order);
  void finish(const Order& order);
  void when_done(Order& order, std::function<void()> call);
  // Completes all that were started.
  void finish_all();
  // The errno of a failed order that was never waited for, or 0. All must be done.
  int untold_error();

 private:
  void serve();
  void run_next(std::unique_lock<std::mutex>& lock);
  void finish_until(const std::function<bool()>& done);

  const bool own_thread_;  // wanted; where none can be started, whoever waits executes them
  Prepared spare_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::list<std::shared_ptr<Order>> queue_;  // not done
  bool is_running_ = false;                  // the first of them
  std::list<std::shared_ptr<Order>> failed_;
  bool ending_ = false;
  std::thread thread_;
};

// Has MPI_Finalize complete them, as nothing may use MPI afterwards. It reports no errors. Where a
// thread has them under way, MPICH 4.0.2 aborts in it at times.
void complete_before_finalize(const std::shared_ptr<Orders>& orders);

}  // namespace ferry::collective
