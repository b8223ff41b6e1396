// Decides who may touch files and programs' buffers: a loop while it is inside the storage, and no
// one once the loop was declared dead.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry::server {

// One loop's. Its states, and everything that changes them:
//
//   from      by                      to
//   open      the loop: enter()       storage
//   storage   the loop: leave()       open
//   open      the watchdog: close()   closed
//
// Nothing leaves `closed`. A loop inside the storage, or in a cached call, is not declared dead:
// slow is not dead. One that ends by a fault of its own stays there.
class Gate {
 public:
  enum class State : std::uint32_t { open, storage, closed };

  // False: the loop was declared dead, and must not touch anything.
  [[nodiscard]] bool enter() { return change(State::storage); }
  // Only the loop leaves this state, so a plain store is enough.
  void leave() { state_.store(State::open, std::memory_order_release); }
  // False: the loop is inside, or was declared dead before.
  [[nodiscard]] bool close() { return change(State::closed); }

  State state() const { return state_.load(std::memory_order_relaxed); }

  // Inside for the length of a scope. Throws Closed where enter() refuses.
  struct Closed {};
  class Section {
   public:
    explicit Section(Gate& gate) : gate_(gate) {
      if (!gate.enter()) throw Closed{};
    }
    ~Section() { gate_.leave(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Gate& gate_;
  };

 private:
  bool change(State to) {
    State expected = State::open;
    return state_.compare_exchange_strong(expected, to, std::memory_order_acq_rel);
  }

  std::atomic<State> state_{State::open};
};

}  // namespace ferry::server
