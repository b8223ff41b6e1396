// The nonblocking transfers of one file: carried out one after the other, in the order in which
// they were started, which is the same on every rank.
//
// Where MPI lets several threads call it, a thread of ours does, which the first order starts.
// Where it does not, whoever waits for an order carries it out, and those before it.
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
  bool told = false;  // somebody has seen the error
};

class Orders {
 public:
  explicit Orders(bool own_thread) : own_thread_(own_thread) {}
  ~Orders();  // ends all of them
  Orders(const Orders&) = delete;
  Orders& operator=(const Orders&) = delete;

  // By the thread that opened the file, as are all of these.
  std::shared_ptr<Order> start(std::function<std::int64_t()> work);
  // Whether it is done. Where there is no thread of ours, it is made so.
  bool test(const Order& order);
  void finish(const Order& order);
  // Ends all that were started.
  void finish_all();
  // The errno of a failed order that nobody has waited for, or 0. All must be done.
  int untold_error();

 private:
  void serve();
  void run_next(std::unique_lock<std::mutex>& lock);
  void finish_until(const std::function<bool()>& done);

  const bool own_thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Order>> queue_;  // not done; the first may be under way
  std::vector<std::shared_ptr<Order>> failed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ferry::collective
