// Work that can stop where it waits and go on later, on a stack of its own. No thread is involved:
// whoever resumes it executes it, so that it may use MPI wherever its caller may.
#pragma once

#include <cstddef>
#include <memory>

#include <ucontext.h>

namespace ferry::collective {

class Fiber {
 public:
  // Null without memory for it.
  static std::unique_ptr<Fiber> make();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Work that throws nothing. It begins with resume().
  using Work = void(void* argument);
  void start(Work* work, void* argument) {
    work_ = work;
    argument_ = argument;
  }
  bool is_idle() const { return work_ == nullptr; }
  // Executes it until it ends or suspends, on any thread; returns whether it has ended. A fiber
  // resumes no other. may_block: it may wait without suspending, as nothing else could go on.
  bool resume(bool may_block);
  // Of one that has suspended: whether it has looked for long enough at what it waits for.
  bool is_tired() const { return is_tired_; }

  static bool is_here();
  // To be called on a fiber, with no lock held. False: it may block.
  static bool suspend(bool tired);
  // Between these a fiber does not suspend, because it has what other ranks want. Elsewhere than on
  // a fiber they do nothing.
  static void begin_undivided();
  static void end_undivided();

 private:
  Fiber() = default;
  static void run();
  void enter();
  void leave(bool for_good);

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  ucontext_t own_{};
  ucontext_t caller_{};
  Work* work_ = nullptr;
  void* argument_ = nullptr;
  bool has_begun_ = false;
  bool may_block_ = false;
  bool is_tired_ = false;
  int undivided_ = 0;
  // Exceptions that are being handled or thrown, which the C++ library keeps for each thread.
  struct Exceptions {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  Exceptions exceptions_;
  // For the address sanitizer.
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

}  // namespace ferry::collective
