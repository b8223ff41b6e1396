// Files of this process whose `pread` and `read` ferryd serves from its page cache.
//
// The descriptor stays the kernel's own, and so does every other call on it. Beside it lies a slot
// that says whether ferryd serves the file, and who keeps its position (position.hpp). Slots are
// never freed: there is one for each small descriptor number, in one array.
//
//   phase      means                                           then
//   none       not ours: the kernel makes all calls, and       opened() for reading: candidate
//              keeps the position
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
// the C library) has no file in its slot. pclose and the like close what is no regular file,
// which is never served; fdopendir leaves what closedir closes. daemon and forkpty change
// descriptors in a child of fork, where no file is served before it has been offered again. Unseen
// are only closes that pass by the functions of this library: the program's own system call
// instructions, its io_uring, and functions taken from the C library by handle (dlopen and dlsym,
// RTLD_DEEPBIND).
//
// A child of vfork shares this memory, but not the descriptors. It leaves the slots as they are,
// and the kernel makes its calls; the positions of all files that it can know were given back
// before vfork.
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/client.hpp"
#include "interpose/position.hpp"

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
  position,
  other
};
inline constexpr std::size_t kernel_reasons = 12;
static_assert(static_cast<std::size_t>(KernelReason::other) + 1 == kernel_reasons);

class CachedReads {
 public:
  static CachedReads& instance() { return only; }

  // False for almost all that are not ours. It comes before every call, so it is one load.
  bool may_serve(int descriptor) const {
    return static_cast<unsigned>(descriptor) < descriptors_max &&
           SlotState::of(
               slots_[static_cast<unsigned>(descriptor)].state.load(std::memory_order_relaxed))
                   .phase != Phase::none;
  }

  // From the environment, once, before the program runs.
  void start();

  // After an open that succeeded.
  void opened(int descriptor, int flags);
  // The descriptor is not served from now on.
  void leave(int descriptor);
  // The descriptor is another one of an open file.
  void copied(int descriptor);
  // Nothing is served any more, nor asked for.
  void stop();
  bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

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
  // read(2) and lseek(2) of a descriptor that we may serve. `here` makes the kernel's call at the
  // kernel's position, `at` the kernel's read at another.
  template <class Here, class At>
  ssize_t read(int descriptor, const iovec* vectors, int count, Here here, At at);
  template <class Here>
  off_t seek(int descriptor, off_t offset, int whence, Here here);

  // Before the kernel's position is used otherwise, or known to another descriptor or process.
  void give_back_position(int descriptor) {
    if (may_serve(descriptor)) [[unlikely]]
      give_back_slowly(descriptor);
  }
  void give_back_positions();
  // And none is taken any more.
  void leave_positions();
  // The kernel has read this file for a call that moves bytes from one file to another. errno
  // stays.
  void count_copy(int descriptor);

  void before_fork();
  // Before a child that no handler of fork sees. `flags` are those of clone(2).
  void before_child(int flags);
  void after_fork_in_child();
  // Whether this is a child that no handler of fork saw.
  bool is_in_child() const;
  // Before the program closes that stream, as the GNU tools do when they end: a report that goes
  // there is made now.
  void closing_standard_error();
  // Reports what was read, once.
  void finish();

 private:
  enum class Phase : std::uint64_t { none, candidate, served, refused, changing };

  // One word. In a candidate, calls of cost `left` come before the offer.
  struct SlotState {
    Phase phase = Phase::none;
    KernelReason reason = KernelReason::too_few;  // of a candidate, or refused
    unsigned left = 0;
    std::uint64_t generation = 0;

    static constexpr unsigned phase_bits = 3;
    static constexpr unsigned reason_bits = 4;
    static constexpr unsigned left_bits = 18;
    std::uint64_t word() const;
    static SlotState of(std::uint64_t word);
  };

  struct Slot {
    std::atomic<std::uint64_t> state;  // 0: none
    std::atomic<std::uint64_t> entry_and_inode;
    std::atomic<std::uint64_t> mark;
    std::atomic<ReadTally*> tally;  // advice: null where nothing is reported
    Position position;
  };
  static_assert(sizeof(Slot) == 48);

  static constexpr unsigned descriptors_max = 65536;

  ssize_t read_slowly(int descriptor, const iovec* vectors, int count, off_t offset);
  bool has_position(int descriptor, const iovec* vectors, int count, Position::Seen& seen);
  bool seek_here(int descriptor, off_t offset, int whence, off_t& reached);
  void count_seek(int descriptor, off_t offset, int whence);
  void give_back_slowly(int descriptor);
  ssize_t read_served(Slot& slot, std::uint64_t word, const iovec* vectors, int count,
                      off_t offset);
  std::uint64_t count_and_offer(int descriptor, std::uint64_t word, unsigned cost);
  std::uint64_t offer(int descriptor, std::uint64_t word);
  SlotState ask(int descriptor, Slot& slot);
  bool may_offer(int descriptor);
  bool find_tally_of(int descriptor, std::uint64_t word);
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
  std::atomic<bool> is_stopped_{false};
  std::atomic<bool> takes_positions_{true};
  std::atomic<bool> shares_memory_{false};  // with processes that need not be children of vfork
  // The thread has made a child that no handler of fork saw, or is it.
  static constinit thread_local bool may_be_child;
  std::atomic<bool> has_standard_error_{true};  // until another file gets the number
  std::atomic<unsigned> end_{0};    // after the largest number that was ever a candidate
  std::atomic<pid_t> offering_{0};  // the thread that offers; 0: none
  // The file's that may_offer() last looked at; of the thread that holds `offering_`. Not on the
  // stack: that of a signal handler may be small.
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

template <class Here, class At>
ssize_t CachedReads::read(int descriptor, const iovec* vectors, int count, Here here, At at) {
  Position& position = slots_[static_cast<unsigned>(descriptor)].position;
  if (is_in_child()) return here();
  Position::Seen seen;
  while (has_position(descriptor, vectors, count, seen)) {
    ssize_t got = read_slowly(descriptor, vectors, count, seen.offset());
    if (got < 0) got = at(static_cast<off_t>(seen.offset()));
    if (got <= 0) return got;
    const std::int64_t next = seen.offset() + got;
    if (next > Position::offset_max) {
      position.give_back(descriptor);
      break;
    }
    if (position.move(seen, next)) return got;
  }
  const Position::KernelUse use(position, descriptor);
  return here();
}

template <class Here>
off_t CachedReads::seek(int descriptor, off_t offset, int whence, Here here) {
  if (is_in_child()) return here();
  off_t reached = 0;
  if (seek_here(descriptor, offset, whence, reached)) return reached;
  count_seek(descriptor, offset, whence);
  Position& position = slots_[static_cast<unsigned>(descriptor)].position;
  const Position::KernelUse use(position, descriptor);
  return here();
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
