// The nonblocking transfers of one file, executed one after another in the order of their starts,
// which is the same on every rank. Transfers of several files are executed beside each other:
//
// N1  If MPI allows several threads, or they call no MPI, a thread of the file's executes them,
//     started by the first order. Files' threads do not wait for each other.
// N2  If not, a fiber of the file's does, whenever a thread of the program waits in this library.
//     Where a fiber waits, for messages, for memory that ranks share or for its storage, it calls
//     pause(), and the next one goes on.
// N3  So does whoever waits in a blocking call. Therefore all transfers of a process advance,
//     whichever of them a rank waits for, and no order in which ranks wait is a deadlock.
// N4  test() executes what can be executed without waiting.
// N5  start() executes what comes before the ranks meet: up to end_of_beginning(), or to its first
//     wait.
// N6  A fiber that pauses holds no lock for which another one would wait without a pause.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "collective/fiber.hpp"

namespace ferry::collective {

struct Order {
  std::function<std::int64_t()> work;
  // Set by whoever executes it, before it is done.
  std::int64_t result = 0;
  std::exception_ptr error;
  bool done = false;           // guarded by the mutex
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
  // Whether it is done. Without a thread of ours, executes what does not have to wait.
  bool test(const Order& order);
  void finish(const Order& order);
  void when_done(Order& order, std::function<void()> call);
  // Completes all that were started.
  void finish_all();
  // The errno of a failed order that was never waited for, or 0. All must be done.
  int untold_error();

  // Adds those of an open file, for the following, and completes them before MPI ends.
  static void add(const std::shared_ptr<Orders>& orders);
  // In the order in which they were added.
  static void finish_those_of_all_files();
  // To be called where a call of this library waits, after it has looked for what it waits for.
  // Lets other transfers go on; naps if they and the caller (`tired`) have looked for long. False:
  // there are none, and the caller may sleep until it is woken.
  static bool pause(bool tired);
  // To be called where what follows may wait for other ranks.
  static void end_of_beginning();

 private:
  enum class Turn : std::uint8_t { none, tired, on };

  void serve();
  // Executes of the order that was started last what N5 says, where no other is before it.
  void begin(const Order& order);
  // The first one is executed to its end, or until it waits. Unlocks meanwhile: it stays first in
  // the queue until it is done.
  void run_first(std::unique_lock<std::mutex>& lock);
  Turn carry_on(std::unique_lock<std::mutex>& lock, bool may_block);
  void end_first(std::unique_lock<std::mutex>& lock);
  bool has_fiber();
  // Lets the fiber go on, if there is one to do so.
  Turn take_turn();
  static Turn take_turns();
  void finish_until(const std::function<bool()>& done);

  const bool own_thread_;  // wanted; where none can be started, whoever waits executes them
  Prepared spare_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::list<std::shared_ptr<Order>> queue_;  // not done
  bool is_running_ = false;                  // the first of them, right now
  std::unique_ptr<Fiber> fiber_;             // without a thread, from the first of them on
  std::list<std::shared_ptr<Order>> failed_;
  bool ending_ = false;
  std::thread thread_;
};

// Has MPI_Finalize complete those of all files, as nothing may use MPI afterwards, and end what
// files share (kept_storage.hpp). It reports no errors. False: MPI_Finalize does not call.
// MPICH 4.0 takes no locks any more when it calls this, so with threads of several files it aborts
// at times.
bool complete_before_finalize();

}  // namespace ferry::collective
