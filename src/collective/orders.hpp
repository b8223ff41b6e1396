// The nonblocking transfers of one file, executed one after another in the order of their starts,
// which is the same on every rank.
//
// If MPI allows several threads, a thread of ours executes them, started by the first order. If
// not, waiting for an order executes it and those before it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

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
  explicit Orders(bool own_thread) : own_thread_(own_thread) {}
  ~Orders();  // completes all of them
  Orders(const Orders&) = delete;
  Orders& operator=(const Orders&) = delete;

  // To be called on the thread that opened the file, as must be the following without a thread of
  // ours.
  std::shared_ptr<Order> start(std::function<std::int64_t()> work);
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

  const bool own_thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Order>> queue_;  // not done; the first may be running
  std::vector<std::shared_ptr<Order>> failed_;
  bool ending_ = false;
  std::thread thread_;
};

// Has MPI_Finalize complete them, as nothing may use MPI afterwards. It reports no errors. Where a
// thread has them under way, MPICH 4.0.2 aborts in it at times.
void complete_before_finalize(const std::shared_ptr<Orders>& orders);

}  // namespace ferry::collective
