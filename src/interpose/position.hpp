// Where the next read(2) of an open file begins: a number that the kernel keeps, or this process.
//
// A read that makes no system call cannot move the kernel's number. So the number is taken from the
// kernel when reads of the file are served, and given back before anything else may use it: another
// descriptor or process, or a call that the kernel makes at its own position. It is given back for
// good; the next file of the descriptor's number begins anew.
//
// The word W says who keeps it, and U counts calls under way that use the kernel's:
//   given    the kernel, for good (also where nothing was ever opened)
//   kernels  the kernel; it may be taken
//   moving   a thread takes it or gives it back, with all signals blocked
//   ours     the position, and a number that each taking makes anew
//
// Protocol:
//   P1  The maker of a descriptor sets its W before others know of it: to `kernels` for a
//       file that was opened, to `given` for another descriptor of an open file. Every call that
//       makes the open file known to another descriptor or process gives W back first. So an open
//       file whose W is not `given` has one descriptor, in one process.
//   P2  A call that uses the kernel's position adds to U, then looks at W (it gives back what is
//       ours), makes the call, and subtracts. Who takes the position sets W to `moving`, then looks
//       at U (and stops if there is a call), then asks the kernel. All four are seq_cst: one of the
//       two sees the other. So the kernel's position stands still while it is taken.
//   P3  A read at our position p moves it by a compare-and-swap from p, after it has the bytes; if
//       that fails, it reads again. So no two reads return the same bytes, and none are skipped.
//   P4  Who gives p back sets W from `ours` p to `moving`, tells the kernel, and then sets `given`.
//       Nobody else tells the kernel anything while W is ours.
//   P5  `moving` lasts for a system call of a thread that no signal interrupts. Others wait for it.
//       A child of fork forgets what its parent's other threads did.
// The number in `ours` repeats after 65,536 takings: a read that lasts through so many of them, on
// a descriptor that others close and open meanwhile, could move the position of another file.
//
// verification/positions.pml checks P2 to P4.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry::run {

// Thread-safe, also in signal handlers: system calls past the libraries. errno stays.
class Position {
 public:
  static constexpr unsigned offset_bits = 46;
  // Larger ones are left to the kernel.
  static constexpr std::int64_t offset_max = (std::int64_t{1} << offset_bits) - 1;

  // A value of W that is not `moving`.
  class Seen {
   public:
    bool is_ours() const { return (word_ & kinds) == ours; }
    std::int64_t offset() const { return static_cast<std::int64_t>(word_ >> kind_bits & offsets); }

   private:
    friend class Position;
    std::uint64_t word_ = given;
  };

  // P1. Whatever was known of another file is forgotten, and in a child of fork what other threads
  // of its parent did.
  void opened(bool may_be_taken) { word_.store(may_be_taken ? kernels : given); }
  // Waits while it moves (P5).
  Seen look() const;
  bool may_be_taken() const { return word_.load(std::memory_order_relaxed) == kernels; }
  // From the kernel, if it may be taken and `is_still()` holds while it moves.
  template <class Condition>
  void take(int descriptor, Condition is_still);
  // P4.
  void give_back(int descriptor);
  // P3. False if it is not `seen` any more.
  bool move(Seen seen, std::int64_t offset) {
    const std::uint64_t number = seen.word_ & ~(offsets << kind_bits);
    return word_.compare_exchange_strong(seen.word_, number | static_cast<std::uint64_t>(offset)
                                                                  << kind_bits);
  }

  // Lives while a call uses the kernel's position (P2).
  class KernelUse {
   public:
    KernelUse(Position& position, int descriptor) : position_(position) {
      if (position_.look().word_ == given) return;  // it stays so
      is_counted_ = true;
      position_.users_.fetch_add(1);
      if (position_.look().is_ours()) position_.give_back(descriptor);
    }
    ~KernelUse() {
      if (is_counted_) position_.users_.fetch_sub(1);
    }
    KernelUse(const KernelUse&) = delete;
    KernelUse& operator=(const KernelUse&) = delete;

   private:
    Position& position_;
    bool is_counted_ = false;
  };

 private:
  class Uninterrupted;

  static constexpr unsigned kind_bits = 2;
  static constexpr std::uint64_t kinds = 3;
  static constexpr std::uint64_t given = 0;
  static constexpr std::uint64_t ours = 1;  // the lowest bits of the word
  static constexpr std::uint64_t kernels = 2;
  static constexpr std::uint64_t moving = 3;
  static constexpr std::uint64_t offsets = std::uint64_t{offset_max};
  static constexpr unsigned looks_before_sleep = 100;

  static inline constinit std::atomic<std::uint64_t> takings{0};

  std::atomic<std::uint64_t> word_{given};
  // A call that a handler left by longjmp stays counted: then the number's files are the kernel's.
  std::atomic<std::uint32_t> users_{0};
};

// Blocks all signals, those of the C library too.
class Position::Uninterrupted {
 public:
  Uninterrupted() {
    const std::uint64_t all = ~std::uint64_t{0};
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof before_);
  }
  ~Uninterrupted() {
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
  }
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

 private:
  std::uint64_t before_ = 0;
};

inline Position::Seen Position::look() const {
  std::uint64_t word = word_.load();
  for (unsigned looks = 0; word == moving; ++looks, word = word_.load()) {
    if (looks < looks_before_sleep) continue;
    const timespec moment{0, 20'000};  // the thread that moves it may need this processor
    kernel_call(SYS_nanosleep, &moment, nullptr);
  }
  Seen seen;
  seen.word_ = word;
  return seen;
}

template <class Condition>
void Position::take(int descriptor, Condition is_still) {
  const Uninterrupted section;
  std::uint64_t word = kernels;
  if (!word_.compare_exchange_strong(word, moving)) return;
  std::uint64_t next = kernels;
  if (users_.load() == 0 && is_still()) {
    const std::int64_t offset = kernel_call(SYS_lseek, descriptor, 0, SEEK_CUR);
    if (offset >= 0 && offset <= offset_max)
      next = takings.fetch_add(1, std::memory_order_relaxed) << (kind_bits + offset_bits) |
             static_cast<std::uint64_t>(offset) << kind_bits | ours;
  }
  word_.store(next);
}

inline void Position::give_back(int descriptor) {
  while (true) {
    Seen seen = look();
    if (seen.word_ == given) return;
    if (seen.word_ == kernels) {
      if (word_.compare_exchange_strong(seen.word_, given)) return;
      continue;
    }
    const Uninterrupted section;
    if (!word_.compare_exchange_strong(seen.word_, moving)) continue;
    kernel_call(SYS_lseek, descriptor, seen.offset(), SEEK_SET);
    word_.store(given);
    return;
  }
}

}  // namespace ferry::run
