#include "storage/posix/uring_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <linux/futex.h>
#include <sys/stat.h>

namespace ferry::storage {
namespace {

// Not in every version of the headers; the numbers are kernel ABI.
constexpr std::uint8_t op_futex_wait = 51;         // IORING_OP_FUTEX_WAIT, Linux 6.7
constexpr std::int32_t futex2_u32_private = 0x82;  // FUTEX2_SIZE_U32 | FUTEX2_PRIVATE
constexpr std::uint64_t futex_match_any = 0xffffffff;

// From this many submissions on, one io_uring_enter for all of them beats one preadv2 for each.
constexpr unsigned batch_min = 4;
constexpr unsigned submit_max = 8;
// The kernel registers at most this much memory as one buffer.
constexpr std::uint64_t buffer_bytes_max = std::uint64_t{1} << 30;
constexpr unsigned registered_files = 1024;
// If a doorbell cannot interrupt a wait for I/O (before Linux 6.7), waits are this short.
constexpr std::chrono::microseconds nap{100};

// Values of user_data that are not the address of an operation.
constexpr std::uint64_t tag_cancel = 0;
constexpr std::uint64_t tag_doorbell = 1;
constexpr std::uint64_t tag_write_out = 2;

bool names_operation(std::uint64_t tag) {
  return tag > tag_write_out;
}

// With `changes_threads`, other threads than this one may use the ring later.
int set_up(io_uring& ring, unsigned depth, bool changes_threads) {
  // The fastest set of flags that this kernel knows: the first is Linux 6.1, the last 5.1. Only the
  // last lets completions be found by another thread than the one that began the operation.
  constexpr std::array<unsigned, 3> attempts = {
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
  int error = -ENOSYS;
  for (const unsigned flags : attempts) {
    if (changes_threads && flags != 0) continue;
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CQSIZE;
    params.cq_entries = depth * 2;
    error = io_uring_queue_init_params(depth, &ring, &params);
    if (error != -EINVAL) return error;
  }
  return error;
}

// Whether the file's size in the kernel agrees that nothing is left to read. On a busy machine, the
// ring was once seen to return 0 for pieces in the middle of a file, which would lose the rest; a
// blocking call then decides.
bool ends_here(const Operation& operation) {
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  const bool wants_nothing = std::all_of(operation.vectors.begin(), operation.vectors.end(),
                                         [](const iovec& vector) { return vector.iov_len == 0; });
  if (wants_nothing) return true;
  struct statx status {};
  const int error =
      ::statx(file.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE, &status);
  if (error != 0 || !S_ISREG(status.stx_mode)) return false;
  return static_cast<std::uint64_t>(operation.offset + operation.done_bytes) >= status.stx_size;
}

class UringQueue final : public PosixQueue {
 public:
  UringQueue(PosixShared& shared, const QueueOptions& options);
  ~UringQueue() override;

  void flush() override;
  Operation* reap() override;
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override;
  void cancel(Operation& operation) override;

 protected:
  void transfer(Operation& operation) override;
  bool batches_reads() const override { return submitted_count_ >= batch_min; }
  bool can_write_out() const override { return true; }
  void write_out(const Operation& operation) override;

 private:
  struct Registered {
    std::shared_ptr<PosixFile::Identity> identity;
    bool direct = false;
  };

  // Null: all are prepared, and the kernel takes none of them now.
  io_uring_sqe* next_entry();
  void arm_doorbell(std::uint32_t seen);
  void register_all();
  void register_arena();
  // Of this operation alone, or of all. Returns whether there was any.
  bool withdraw_prepared(const Operation* only = nullptr);
  // A direct write is over: buffered ones may have their turn.
  static void end_turn(const Operation& operation);
  // Index of the descriptor in the registered table, or -1.
  int registered_index(const PosixFile& file, bool direct);
  void drop_closed_files();
  static void forget(Registered& entry);
  void collect();
  void complete(Operation& operation, int result);
  int buffer_index(const iovec& vector) const;

  io_uring ring_{};
  bool files_registered_ = false;
  bool buffers_registered_ = false;
  bool futex_wait_works_ = false;
  bool doorbell_armed_ = false;
  bool closing_ = false;    // being destroyed
  bool held_back_ = false;  // the last flush() left entries for the next one
  unsigned in_ring_ = 0;
  std::uint64_t closes_seen_ = 0;
  std::vector<Registered> files_;
  std::vector<unsigned> used_;  // the entries of these that have a file
};

UringQueue::UringQueue(PosixShared& shared, const QueueOptions& options)
    : PosixQueue(shared, options) {
  if (const int error = set_up(ring_, options.depth, options.changes_threads); error != 0) {
    throw std::system_error(-error, std::system_category(), "io_uring_setup");
  }
  try {
    register_all();
  } catch (...) {
    io_uring_queue_exit(&ring_);
    throw;
  }
}

void UringQueue::register_all() {
  // Saves this thread a descriptor look-up per call; refusal is harmless.
  if (!options_.changes_threads) io_uring_register_ring_fd(&ring_);
  if (const int error = io_uring_register_files_sparse(&ring_, registered_files); error == 0) {
    files_registered_ = true;
    files_.resize(registered_files);
    used_.reserve(registered_files);
  } else {
    shared_.note(std::string("io_uring without registered files: ") + std::strerror(-error));
  }
  register_arena();
  if (io_uring_probe* probe = io_uring_get_probe_ring(&ring_); probe != nullptr) {
    futex_wait_works_ = probe->last_op >= op_futex_wait;
    io_uring_free_probe(probe);
  }
  const std::lock_guard lock(shared_.mutex);
  shared_.doorbells.push_back(options_.doorbell);
}

UringQueue::~UringQueue() {
  // Nothing begins any more, not even prepared operations: callers of a loop declared dead have
  // their buffers back.
  closing_ = true;
  withdraw_prepared();
  // The kernel must not be left with addresses of operations and buffers.
  while (in_ring_ > 0) {
    int error = io_uring_submit_and_wait(&ring_, 1);
    // It has no memory for more entries. Those that it has end all the same.
    io_uring_cqe* ended = nullptr;
    if (error == -EAGAIN || error == -EBUSY) error = io_uring_wait_cqe(&ring_, &ended);
    if (error < 0 && error != -EINTR) break;
    collect();
  }
  io_uring_queue_exit(&ring_);
  for (const unsigned index : used_)
    forget(files_[index]);
  const std::lock_guard lock(shared_.mutex);
  const auto own = [this](const Doorbell& one) { return one.word == options_.doorbell.word; };
  shared_.doorbells.erase(std::ranges::find_if(shared_.doorbells, own));
}

// Turns entries that were not sent yet into ones that do nothing.
bool UringQueue::withdraw_prepared(const Operation* only) {
  bool any = false;
  const unsigned count = io_uring_sq_ready(&ring_);
  for (unsigned i = ring_.sq.sqe_tail - count; i != ring_.sq.sqe_tail; ++i) {
    io_uring_sqe& entry = ring_.sq.sqes[i & *ring_.sq.kring_mask];
    const std::uint64_t tag = entry.user_data;
    if (only != nullptr && tag != reinterpret_cast<std::uint64_t>(only)) continue;
    io_uring_prep_nop(&entry);
    entry.user_data = tag_cancel;
    if (tag == tag_write_out) --in_ring_;
    if (!names_operation(tag)) continue;
    any = true;
    --in_ring_;
    end_turn(*reinterpret_cast<Operation*>(tag));
  }
  return any;
}

void UringQueue::end_turn(const Operation& operation) {
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  if (operation.kind == Kind::write && file.turns != nullptr) file.turns->end_direct();
}

void UringQueue::register_arena() {
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < options_.arena.size(); at += buffer_bytes_max) {
    const std::size_t bytes = std::min<std::size_t>(options_.arena.size() - at, buffer_bytes_max);
    pieces.push_back(iovec{options_.arena.data() + at, bytes});
  }
  if (pieces.empty()) return;
  const int error =
      io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  buffers_registered_ = error == 0;
  if (error != 0) {
    shared_.note(std::string("io_uring without registered buffers: ") + std::strerror(-error) +
                 " (raise the limit of locked memory, ulimit -l)");
  }
}

io_uring_sqe* UringQueue::next_entry() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry != nullptr) return entry;
  io_uring_submit(&ring_);
  return io_uring_get_sqe(&ring_);
}

int UringQueue::registered_index(const PosixFile& file, bool direct) {
  if (!files_registered_) return -1;
  // Direct-mapped: the latest file that needs an entry has it. Operations in flight on the
  // displaced file keep their own reference in the kernel.
  const auto index =
      static_cast<unsigned>((file.identity->number * 2 + (direct ? 1 : 0)) % registered_files);
  Registered& entry = files_[index];
  if (entry.identity == file.identity && entry.direct == direct) return static_cast<int>(index);
  const int fd = direct ? file.direct_fd : file.fd;
  // Operations prepared but not sent refer to the current file of this index. The kernel may have
  // no memory for them now.
  if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
  if (io_uring_sq_ready(&ring_) > 0) return -1;
  if (io_uring_register_files_update(&ring_, index, &fd, 1) != 1) return -1;
  if (!entry.identity) used_.push_back(index);
  forget(entry);
  file.identity->registered.fetch_add(1, std::memory_order_relaxed);
  entry = Registered{file.identity, direct};
  return static_cast<int>(index);
}

void UringQueue::forget(Registered& entry) {
  if (entry.identity) entry.identity->registered.fetch_sub(1, std::memory_order_release);
  entry = Registered{};
}

// A registered descriptor keeps the file open in the kernel: its space is not freed and its file
// system stays busy until every queue has let go of it.
void UringQueue::drop_closed_files() {
  const std::uint64_t closes = shared_.closes.load(std::memory_order_acquire);
  if (closes == closes_seen_) return;
  closes_seen_ = closes;
  std::erase_if(used_, [&](unsigned index) {
    Registered& entry = files_[index];
    if (!entry.identity->closed.load(std::memory_order_acquire)) return false;
    const int none = -1;
    io_uring_register_files_update(&ring_, index, &none, 1);
    forget(entry);
    return true;
  });
}

int UringQueue::buffer_index(const iovec& vector) const {
  if (!buffers_registered_) return -1;
  const auto* begin = static_cast<const std::byte*>(vector.iov_base);
  const std::byte* arena = options_.arena.data();
  if (begin < arena || begin + vector.iov_len > arena + options_.arena.size()) return -1;
  const auto offset = static_cast<std::uint64_t>(begin - arena);
  const std::uint64_t index = offset / buffer_bytes_max;
  const std::uint64_t last = offset + std::max<std::size_t>(vector.iov_len, 1) - 1;
  return last / buffer_bytes_max == index ? static_cast<int>(index) : -1;
}

void UringQueue::transfer(Operation& operation) {
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  const bool reading = operation.kind == Kind::read;
  bool direct = file.direct_fd >= 0 && fits_direct(file, operation);
  if (!reading && file.turns != nullptr) {
    direct = direct && file.turns->try_begin_direct();
    if (!direct) {  // as the rest of a short write may have become
      give_to_pool(operation);
      return;
    }
  }
  const int registered = registered_index(file, direct);
  const int fd = registered >= 0 ? registered : (direct ? file.direct_fd : file.fd);
  const auto offset = static_cast<std::uint64_t>(operation.offset + operation.done_bytes);
  const auto count = static_cast<unsigned>(operation.vectors.size());
  const iovec* vectors = operation.vectors.data();
  const int buffer = count == 1 && file.registered_buffers ? buffer_index(vectors[0]) : -1;
  io_uring_sqe* const entry = next_entry();
  if (entry == nullptr) {
    end_turn(operation);
    give_to_pool(operation);
    return;
  }
  if (buffer >= 0) {
    const auto bytes = static_cast<unsigned>(vectors[0].iov_len);
    if (reading) {
      io_uring_prep_read_fixed(entry, fd, vectors[0].iov_base, bytes, offset, buffer);
    } else {
      io_uring_prep_write_fixed(entry, fd, vectors[0].iov_base, bytes, offset, buffer);
    }
  } else if (reading) {
    io_uring_prep_readv(entry, fd, vectors, count, offset);
  } else {
    io_uring_prep_writev(entry, fd, vectors, count, offset);
  }
  if (registered >= 0) entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data(entry, &operation);
  ++in_ring_;
  count_engine_operation();
}

// By a worker thread of the kernel.
void UringQueue::write_out(const Operation& operation) {
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  io_uring_sqe* const entry = next_entry();
  if (entry == nullptr) return;  // the kernel does it later by itself
  io_uring_prep_sync_file_range(entry, file.fd, static_cast<unsigned>(operation.result),
                                static_cast<std::uint64_t>(operation.offset),
                                SYNC_FILE_RANGE_WRITE);
  entry->user_data = tag_write_out;
  ++in_ring_;
  // Now: the descriptor may be closed when the operation ends. The kernel keeps the file.
  io_uring_submit(&ring_);
}

void UringQueue::flush() {
  drop_closed_files();
  const bool more = submitted_count_ > 0;
  PosixQueue::flush();
  drop_closed_files();  // before a thread closes them
  const unsigned prepared = io_uring_sq_ready(&ring_);
  // While operations keep arriving, collect them: one call into the kernel, and one notification of
  // a virtual device, for all. The first round without new ones, or wait(), submits them.
  held_back_ = more && prepared < submit_max;
  if (prepared > 0 && !held_back_) io_uring_submit(&ring_);
}

void UringQueue::complete(Operation& operation, int result) {
  end_turn(operation);
  if (closing_) return;
  switch (after_ring(operation, result)) {
    case AfterRing::over:
      finish(operation);
      break;
    case AfterRing::ring_again:
      transfer(operation);
      break;
    case AfterRing::blocking_call:
      give_to_pool(operation);
      break;
  }
}

void UringQueue::collect() {
  io_uring_cqe* first = nullptr;
  // With deferred task work this enters the kernel when, and only when, something has finished.
  if (io_uring_peek_cqe(&ring_, &first) != 0) return;
  unsigned head = 0;
  unsigned seen = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_, head, entry) {
    ++seen;
    const std::uint64_t tag = entry->user_data;
    if (tag == tag_cancel) continue;
    if (tag == tag_doorbell) {
      doorbell_armed_ = false;
      continue;
    }
    --in_ring_;
    if (names_operation(tag)) complete(*reinterpret_cast<Operation*>(tag), entry->res);
  }
  io_uring_cq_advance(&ring_, seen);
  if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
}

Operation* UringQueue::reap() {
  if (Operation* operation = PosixQueue::reap(); operation != nullptr) return operation;
  if (in_ring_ == 0) return nullptr;
  if (!held_back_ && io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
  held_back_ = false;
  collect();
  return PosixQueue::reap();
}

// Completes when the doorbell rings, or immediately if it has rung since `seen`.
void UringQueue::arm_doorbell(std::uint32_t seen) {
  io_uring_sqe* const entry = next_entry();
  if (entry == nullptr) return;
  std::memset(entry, 0, sizeof *entry);
  entry->opcode = op_futex_wait;
  entry->fd = futex2_u32_private;
  entry->addr = reinterpret_cast<std::uint64_t>(options_.doorbell.word);
  entry->off = seen;
  entry->addr3 = futex_match_any;
  entry->user_data = tag_doorbell;
  doorbell_armed_ = true;
}

void UringQueue::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  drop_closed_files();
  if (!nothing_finished()) return;
  if (in_ring_ == 0) {
    PosixQueue::wait(seen, timeout);
    return;
  }
  if (!futex_wait_works_) {
    timeout = std::min<std::chrono::nanoseconds>(timeout, nap);
  } else if (!doorbell_armed_) {
    arm_doorbell(seen);
    if (!doorbell_armed_) timeout = std::min<std::chrono::nanoseconds>(timeout, nap);
  }
  const auto count = limited(timeout).count();
  __kernel_timespec limit{count / 1'000'000'000, count % 1'000'000'000};
  io_uring_cqe* entry = nullptr;
  io_uring_submit_and_wait_timeout(&ring_, &entry, 1, &limit, nullptr);
  rested();
  // It does not wait while it takes none of the entries.
  if (io_uring_sq_ready(&ring_) > 0 && nothing_finished())
    PosixQueue::wait(seen, std::min<std::chrono::nanoseconds>(timeout, nap));
  collect();
}

void UringQueue::cancel(Operation& operation) {
  PosixQueue::cancel(operation);
  if (in_ring_ == 0) return;
  io_uring_sqe* const entry = next_entry();
  if (entry == nullptr) {
    if (withdraw_prepared(&operation)) {
      operation.result = operation.done_bytes > 0 ? operation.done_bytes : -ECANCELED;
      finish(operation);
      return;
    }
    // Needs no entry, and does not wait (Linux 6.0). Where it fails, the transfer ends by itself.
    io_uring_sync_cancel_reg now{};
    now.addr = reinterpret_cast<std::uint64_t>(&operation);
    static_cast<void>(io_uring_register_sync_cancel(&ring_, &now));
    return;
  }
  io_uring_prep_cancel(entry, &operation, 0);
  entry->user_data = tag_cancel;
  io_uring_submit(&ring_);
}

}  // namespace

AfterRing after_ring(Operation& operation, int result) {
  // The ring returns -EAGAIN where it would have to wait and cannot, and may do so each time.
  if (result == -EINTR || result == -EAGAIN) return AfterRing::blocking_call;
  if (result == 0 && operation.kind == Kind::read && !ends_here(operation))
    return AfterRing::blocking_call;
  if (result < 0) {
    operation.result = operation.done_bytes > 0 ? operation.done_bytes : result;
    return AfterRing::over;
  }
  // Short: go on until it is complete, at the end of the file, or fails.
  if (!advance(operation, result) && result > 0) return AfterRing::ring_again;
  operation.result = operation.done_bytes;
  return AfterRing::over;
}

int uring_refused() {
  io_uring ring;
  const int error = set_up(ring, 4, false);
  if (error == 0) io_uring_queue_exit(&ring);
  return error;
}

std::unique_ptr<Queue> make_uring_queue(PosixShared& shared, const QueueOptions& options) {
  return std::make_unique<UringQueue>(shared, options);
}

}  // namespace ferry::storage
