// Files of this process whose `pread` ferryd serves from its page cache.
//
// The descriptor stays the kernel's own, and so do its position and every other call on it. Beside
// it lies a slot that says whether ferryd serves the file. Slots are never freed: there is one for
// each small descriptor number, in one array.
//
//   phase      means                                           then
//   none       not ours: the kernel makes all calls            opened() for reading: candidate
//   candidate  reads are counted, and the file is offered      served, refused, none
//   served     the two words of the slot are its ServedFile    candidate, when ferryd says `gone`
//   refused    offered, and it never will be                   -
//   changing   the number is about to become another file      candidate, when it has
//
// Protocol, with T the slot's state, a word of phase and generation:
//   S1  Every step to another phase takes a new generation, so a state never comes back.
//   S2  Only the thread that holds `offering_` stores the file's words, and only after it has seen
//       T = candidate of generation g. It stores `served` by a compare-and-swap from that T.
//   S3  A reader loads T (served), the words, and T again. The words are stored and loaded with
//       release and acquire: one that sees a word of a later file also sees that T has changed
//       since, and makes the kernel's call.
//   S4  Before a call of the kernel that takes the number from its file, T becomes `changing`. It
//       leaves that only when the call has returned. So nothing that was found out about the old
//       file is stored after the number has changed hands: the compare-and-swap of S2 fails.
//   S5  A candidate is a hint. What makes a file one that may be served is looked up from the
//       descriptor itself when it is offered, by the thread that asks for its bytes.
// No reader waits: not for `offering_` either, which a signal handler may find taken by the very
// thread that it interrupted.
//
// Why a descriptor is never taken for another file. A number is `served` only after opened() has
// seen it, and every close of a number that opened() has seen is seen too: close, close_range,
// closefrom, dup2, dup3, login_tty, fclose and freopen of a stream made by fdopen, and syscall(2)
// with these numbers. So a number that is opened unseen (fopen, opendir, tmpfile, socket, inside
// the C library) has no file in its slot. closedir, pclose and the like close what is no regular
// file, which is never served. daemon and forkpty change descriptors in a child of fork, where the
// client of ferryd says `gone` to every file until it is offered again. Unseen are only closes that
// pass by the functions of this library: the program's own system call instructions, its io_uring,
// and functions taken from the C library by handle (dlopen and dlsym, RTLD_DEEPBIND).
//
// A child of vfork shares this memory, but not the descriptors. It may close them: the parent's
// files become candidates then, and are offered again.
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/client.hpp"

namespace ferry::run {

struct ReadTally;
struct ServingSettings;

// Why the kernel made a read.
enum class KernelReason : unsigned {
  too_few,
  writers,
  file_system,
  other_user,
  empty,
  deleted,
  too_many,
  no_daemon,
  refused,
  missed,
  other
};
inline constexpr std::size_t kernel_reasons = 11;
static_assert(static_cast<std::size_t>(KernelReason::other) + 1 == kernel_reasons);

class CachedReads {
 public:
  static CachedReads& instance() { return only; }

  // From the environment, once, before the program runs.
  void start();

  // After an open that succeeded.
  void opened(int descriptor, int flags);
  // The descriptor is not served from now on.
  void leave(int descriptor);
  // Nothing is served any more, nor asked for.
  void stop();

  // Before and after descriptors go or become other files. Numbers need not be open.
  void closing(unsigned first, unsigned last);
  void closed(unsigned first, unsigned last);

  // Bytes read (fewer at the end of the file), or -1: the kernel makes the call. errno stays.
  ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) {
    if (!may_serve(descriptor)) [[likely]]
      return -1;
    const iovec one{data, bytes};
    return read_slowly(descriptor, &one, 1, offset);
  }
  ssize_t preadv(int descriptor, const iovec* vectors, int count, off_t offset) {
    if (!may_serve(descriptor)) [[likely]]
      return -1;
    return read_slowly(descriptor, vectors, count, offset);
  }

  void before_fork();
  void after_fork_in_child();
  // Reports what was read, once.
  void finish();

 private:
  enum class Phase : std::uint64_t { none, candidate, served, refused, changing };

  // One word. In a candidate, `left` reads come before the offer.
  struct SlotState {
    Phase phase = Phase::none;
    KernelReason reason = KernelReason::too_few;  // of a candidate, or refused
    unsigned left = 0;
    std::uint64_t generation = 0;

    static constexpr unsigned phase_bits = 3;
    static constexpr unsigned reason_bits = 4;
    static constexpr unsigned left_bits = 10;
    std::uint64_t word() const;
    static SlotState of(std::uint64_t word);
  };

  struct Slot {
    std::atomic<std::uint64_t> state;  // 0: none
    std::atomic<std::uint64_t> entry_and_inode;
    std::atomic<std::uint64_t> mark;
    std::atomic<ReadTally*> tally;  // advice: null where nothing is reported
  };
  static_assert(sizeof(Slot) == 32);

  static constexpr unsigned descriptors_max = 65536;

  bool may_serve(int descriptor) const {
    return static_cast<unsigned>(descriptor) < descriptors_max &&
           SlotState::of(
               slots_[static_cast<unsigned>(descriptor)].state.load(std::memory_order_relaxed))
                   .phase != Phase::none;
  }
  ssize_t read_slowly(int descriptor, const iovec* vectors, int count, off_t offset);
  ssize_t read_served(Slot& slot, std::uint64_t word, const iovec* vectors, int count,
                      off_t offset);
  std::uint64_t count_and_offer(int descriptor, std::uint64_t word);
  std::uint64_t offer(int descriptor, std::uint64_t word);
  SlotState ask(int descriptor, Slot& slot);
  bool may_offer(int descriptor);
  bool hold_offering();
  bool load(const Slot& slot, std::uint64_t word, daemon::ServedFile& file) const;
  static std::uint64_t change(Slot& slot, Phase phase);
  static bool change_from(Slot& slot, std::uint64_t word, SlotState to);
  unsigned end_of(unsigned last) const;
  ReadTally* find_tally(const char* path);
  void count_kernel_read(const Slot& slot, KernelReason reason) const;

  static CachedReads only;

  std::array<Slot, descriptors_max> slots_{};
  std::atomic<bool> is_on_{false};
  std::atomic<unsigned> end_{0};    // after the largest number that was ever a candidate
  std::atomic<pid_t> offering_{0};  // the thread that offers; 0: none
  // The file's that may_offer() last looked at; of whoever holds `offering_`. Not on the stack:
  // that of a signal handler may be small.
  std::array<char, PATH_MAX> path_{};
  bool is_own_offering_ = false;  // between before_fork and after_fork_in_child
  pid_t process_ = 0;
  const ServingSettings* settings_ = nullptr;  // null: nothing is served
  daemon::Client* client_ = nullptr;
  std::atomic<bool> is_finished_{false};
};

inline std::uint64_t CachedReads::SlotState::word() const {
  return static_cast<std::uint64_t>(phase) | static_cast<std::uint64_t>(reason) << phase_bits |
         std::uint64_t{left} << (phase_bits + reason_bits) |
         generation << (phase_bits + reason_bits + left_bits);
}

inline CachedReads::SlotState CachedReads::SlotState::of(std::uint64_t word) {
  constexpr auto low = [](std::uint64_t of, unsigned bits) {
    return of & ((std::uint64_t{1} << bits) - 1);
  };
  return {static_cast<Phase>(low(word, phase_bits)),
          static_cast<KernelReason>(low(word >> phase_bits, reason_bits)),
          static_cast<unsigned>(low(word >> (phase_bits + reason_bits), left_bits)),
          word >> (phase_bits + reason_bits + left_bits)};
}

// Lives while the kernel takes descriptors from their files (S4).
class DescriptorChange {
 public:
  explicit DescriptorChange(int descriptor)
      : DescriptorChange(static_cast<unsigned>(descriptor), static_cast<unsigned>(descriptor)) {}
  DescriptorChange(unsigned first, unsigned last) : first_(first), last_(last) {
    CachedReads::instance().closing(first_, last_);
  }
  ~DescriptorChange() { CachedReads::instance().closed(first_, last_); }
  DescriptorChange(const DescriptorChange&) = delete;
  DescriptorChange& operator=(const DescriptorChange&) = delete;

 private:
  const unsigned first_;
  const unsigned last_;
};

}  // namespace ferry::run
