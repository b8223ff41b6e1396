#include "storage/posix/queue.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.hpp"

namespace ferry::storage {

void PosixShared::note(const std::string& text) {
  const std::lock_guard lock(mutex);
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(text);
}

void PosixShared::learn_registered_buffers(const Operation& operation, bool may_test) const {
  if (operation.kind != Kind::open || operation.opened == nullptr || !registered_buffers) return;
  auto& file = static_cast<PosixFile&>(*operation.opened);
  if (file.generated) return;  // read by threads that may wait
  RegisteredBuffers result = registered_buffers->by_type(file.file_system);
  if (result == RegisteredBuffers::untested)
    result = may_test ? registered_buffers->of(file.fd) : registered_buffers->known(file.fd);
  file.registered_buffers = result == RegisteredBuffers::right;
}

namespace {

// Whether a truncation, or the close of a file that has no name any more, may take a tenth of a
// second. Blocks that were allocated in advance may lie beyond the size. Of a small file that is
// only read, nobody asks: that would be a twentieth of opening, reading and closing it.
bool frees_much(const PosixFile& file, const Operation& operation) {
  struct stat status {};
  const bool closes = operation.kind == Kind::close;
  if (file.remote || (closes && file.read_only && file.small)) return false;
  if (::fstat(file.fd, &status) != 0 || (closes && status.st_nlink > 0)) return false;
  const off_t held = std::max<off_t>(status.st_size, status.st_blocks * 512);
  return held - (closes ? 0 : operation.offset) >
         static_cast<off_t>(LocalMounts::emptied_bytes_max);
}

// A queue drops files when its thread comes to it. One that has not by then may free them itself.
constexpr std::chrono::milliseconds drop_time{1000};
constexpr std::chrono::microseconds drop_nap{100};

}  // namespace

void PosixShared::await_registered(const Operation& operation) {
  if (operation.kind != Kind::close) return;
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  const std::atomic<unsigned>& registered = file.identity->registered;
  if (registered.load(std::memory_order_acquire) == 0 || !frees_much(file, operation)) return;
  {
    const std::lock_guard lock(mutex);
    for (const Doorbell& doorbell : doorbells)
      doorbell.ring();
  }
  const auto until = InlinePolicy::Clock::now() + drop_time;
  while (registered.load(std::memory_order_acquire) > 0 && InlinePolicy::Clock::now() < until)
    std::this_thread::sleep_for(drop_nap);
}

PosixQueue::PosixQueue(PosixShared& shared, const QueueOptions& options)
    : InboxQueue(options), shared_(shared) {}

// Workers hold a pointer to the inbox until their operation is in it.
PosixQueue::~PosixQueue() {
  // Operations not begun must not begin any more: their caller may be gone.
  take_back(shared_.pool.withdraw_all(inbox_));
  await_others();
  while (Operation* operation = put_off_.pop())
    execute_blocking(*operation);
}

void PosixQueue::start(Operation& operation) {
  const auto* file = static_cast<const PosixFile*>(operation.file);
  switch (operation.kind) {
    case Kind::close:
      file->identity->closed.store(true, std::memory_order_release);
      shared_.closes.fetch_add(1, std::memory_order_release);
      if (file->mount != 0 && file->direct_fd < 0 && !frees_much(*file, operation) &&
          execute_if_allowed(operation))
        return;
      break;
    case Kind::open:
      if (open_at_once(operation)) return;
      if (is_at_hand(operation) && execute_if_allowed(operation)) return;
      if (create_at_once(operation)) return;
      break;
    case Kind::path_status:
      if (status_at_once(operation)) return;
      break;
    case Kind::path_layout:
    case Kind::unlink:
      if (is_at_hand(operation) && execute_if_allowed(operation)) return;
      break;
    case Kind::read:
      if (operation.offset < 0) {
        operation.result = -EINVAL;
        finish(operation);
        return;
      }
      if (file->special || file->in_user_space) break;
      if (file->direct_fd < 0 && !batches_reads() && read_now(operation)) return;
      transfer(operation);
      return;
    case Kind::write:
      if (operation.offset < 0) {
        operation.result = -EINVAL;
        finish(operation);
        return;
      }
      if (file->direct_fd >= 0 && fits_direct(*file, operation)) {
        transfer(operation);
        return;
      }
      [[fallthrough]];
    case Kind::append:
      if (!write_at_once(operation, *file)) break;
      return;
    case Kind::truncate:
      if (operation.kind == Kind::truncate && frees_much(*file, operation)) break;
      [[fallthrough]];
    case Kind::file_status:
      if (!file->remote && execute_if_allowed(operation)) return;
      break;
    default:
      break;
  }
  give_to_pool(operation);
}

// The path may change between this check and the call, also to one that must wait: a process that
// may rename local files can delay a queue once.
bool PosixQueue::is_at_hand(const Operation& operation) {
  if (operation.kind == Kind::open &&
      (operation.flags & (O_EXCL | O_DIRECT | (O_TMPFILE & ~O_DIRECTORY))) != 0)
    return false;
  struct statx status {};
  return finds(operation, status);
}

bool PosixQueue::finds(const Operation& operation, struct statx& status) {
  PathUse use{.follows_last_link = (operation.flags & O_NOFOLLOW) == 0};
  if (operation.kind == Kind::open) {
    use.writes = (operation.flags & O_ACCMODE) != O_RDONLY;
    use.empties = (operation.flags & O_TRUNC) != 0;
  } else if (operation.kind == Kind::unlink) {
    use = {.follows_last_link = false, .removes = true};
  }
  const int found = mounts_.find(operation.path, use, status);
  if (found >= 0) ::close(found);
  return found >= 0;
}

Operation* PosixQueue::reap() {
  Operation* operation = InboxQueue::reap();
  for (OperationList again = std::exchange(put_off_, {}); Operation* close = again.pop();)
    give_to_pool(*close);
  return operation;
}

void PosixQueue::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  InboxQueue::wait(seen, limited(timeout));
  rested();
}

// Through the page cache. Not where it would wait for the medium, or for direct writes, which this
// thread may have to end.
bool PosixQueue::write_at_once(Operation& operation, const PosixFile& file) {
  if (file.remote || file.synchronous || file.direct_fd >= 0) return false;
  if (operation.sync_follows && !can_write_out()) return false;
  const std::shared_ptr<WriteTurns> turns = file.turns;
  if (turns != nullptr && !turns->try_begin_buffered()) return false;
  const bool executed = execute_if_allowed(operation);
  if (turns != nullptr) turns->end_buffered();
  return executed;
}

bool PosixQueue::execute_if_allowed(Operation& operation) {
  const auto begin = InlinePolicy::Clock::now();
  if (!policy_.allows(begin)) return false;
  execute_now(operation, begin);
  return true;
}

bool PosixQueue::status_at_once(Operation& operation) {
  const auto begin = InlinePolicy::Clock::now();
  struct statx status {};
  if (!policy_.allows(begin) || !finds(operation, status)) return false;
  operation.status = to_status(status);
  executed(operation, begin);
  return true;
}

// Where there is a file already, in vain.
bool PosixQueue::create_at_once(Operation& operation) {
  constexpr int others = O_DIRECT | O_PATH | (O_TMPFILE & ~O_DIRECTORY);
  const auto begin = InlinePolicy::Clock::now();
  const bool creates = (operation.flags & O_CREAT) != 0 && (operation.flags & others) == 0;
  if (!creates || operation.layout != nullptr || !policy_.allows(begin)) return false;
  const int fd = mounts_.create(operation.path, opening_flags(operation) | O_EXCL, operation.mode);
  if (fd < 0) {
    policy_.took(begin, InlinePolicy::Clock::now(), waits_so_far);
    return false;
  }
  operation.result = take_opened(operation, fd);
  executed(operation, begin);
  return true;
}

bool PosixQueue::open_at_once(Operation& operation) {
  // Those that is_at_hand() refuses, and what LocalMounts::open() does not do.
  constexpr int others =
      O_CREAT | O_EXCL | O_TRUNC | O_DIRECT | O_PATH | (O_TMPFILE & ~O_DIRECTORY);
  const auto begin = InlinePolicy::Clock::now();
  if ((operation.flags & others) != 0 || operation.layout != nullptr || !policy_.allows(begin))
    return false;
  FileFacts facts;
  const int fd = mounts_.open(operation.path, opening_flags(operation), facts);
  if (fd < 0) {
    policy_.took(begin, InlinePolicy::Clock::now(), waits_so_far);
    return false;
  }
  operation.result = take_opened(operation, fd, facts);
  executed(operation, begin);
  return true;
}

void PosixQueue::execute_now(Operation& operation, InlinePolicy::Clock::time_point begin) {
  execute_blocking(operation);
  executed(operation, begin);
}

void PosixQueue::executed(Operation& operation, InlinePolicy::Clock::time_point begin) {
  shared_.learn_registered_buffers(operation, false);
  policy_.took(begin, InlinePolicy::Clock::now(), waits_so_far);
  if (operation.kind == Kind::open && operation.result == -EAGAIN) {  // a process has a lease on it
    give_to_pool(operation);
    return;
  }
  if (wants_write_out(operation)) write_out(operation);
  count_inline_operation();
  finish(operation);
}

namespace {

constexpr std::uint32_t cached_reads_trusted = 64;
constexpr std::size_t trusted_bytes_max = 64 * 1024;

// Nanoseconds of a clock that advances once per tick of the kernel (1 to 10 ms). Two reads cost 10
// ns instead of the exact clock's 50, of the 800 of a read of 4 KiB.
std::int64_t coarse_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

bool may_trust(const PosixFile& file, const Operation& operation) {
  return file.cached_reads.load(std::memory_order_relaxed) >= cached_reads_trusted &&
         operation.vectors.size() == 1 && operation.vectors[0].iov_len <= trusted_bytes_max;
}

}  // namespace

std::int64_t PosixQueue::read_trusting(Operation& operation) {
  auto& file = static_cast<PosixFile&>(*operation.file);
  const iovec& target = operation.vectors[0];
  const std::int64_t begin = coarse_ns();
  const auto moved =
      pread(file.fd, target.iov_base, target.iov_len, operation.offset + operation.done_bytes);
  if (coarse_ns() != begin) file.cached_reads.store(0, std::memory_order_relaxed);
  return moved;
}

bool PosixQueue::read_now(Operation& operation) {
  auto& file = static_cast<PosixFile&>(*operation.file);
  if (file.remote) return false;
  if (file.in_memory) {
    execute_now(operation, InlinePolicy::Clock::now());
    return true;
  }
  if (!file.nowait.load(std::memory_order_relaxed)) return false;
  for (;;) {
    const auto moved =
        may_trust(file, operation)
            ? read_trusting(operation)
            : preadv2(file.fd, operation.vectors.data(), static_cast<int>(operation.vectors.size()),
                      operation.offset + operation.done_bytes, RWF_NOWAIT);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EAGAIN) {
      file.cached_reads.store(0, std::memory_order_relaxed);
      return false;
    }
    if (moved < 0 && errno == EOPNOTSUPP) {
      file.nowait.store(false, std::memory_order_relaxed);
      return false;
    }
    if (moved < 0 && operation.done_bytes == 0) operation.result = -errno;
    if (moved <= 0 || advance(operation, moved)) break;
    // Short: the end of the file, or of its cached part. The next call tells which.
  }
  if (operation.done_bytes > 0) operation.result = operation.done_bytes;
  // Counts that queues lose to each other do not matter.
  const std::uint32_t reads = file.cached_reads.load(std::memory_order_relaxed);
  if (reads < cached_reads_trusted) file.cached_reads.store(reads + 1, std::memory_order_relaxed);
  count_inline_operation();
  finish(operation);
  return true;
}

void PosixQueue::give_to_pool(Operation& operation) {
  try {
    shared_.pool.execute(operation, inbox_, shared_.places.of(operation));
  } catch (const std::bad_alloc&) {  // before a worker has it
    if (operation.kind == Kind::close) {
      put_off_.push(operation);
      return;
    }
    operation.result = operation.done_bytes > 0 ? operation.done_bytes : -ENOMEM;
    finish(operation);
    return;
  }
  count_pool_operation();
  give_away();
}

void PosixQueue::cancel(Operation& operation) {
  if (operation.kind == Kind::close) return;  // otherwise the file would never be closed
  if (!shared_.pool.withdraw(operation)) return;
  take_back(1);
  operation.result = operation.done_bytes > 0 ? operation.done_bytes : -ECANCELED;
  finish(operation);
}

void BlockingQueue::submit(Operation& operation) {
  operation.done_bytes = 0;
  operation.result = 0;
  operation.value = 0;
  submitted_.push(operation);
}

void BlockingQueue::flush() {
  while (Operation* operation = submitted_.pop()) {
    const bool transfers = operation->kind == Kind::read || operation->kind == Kind::write;
    if (operation->kind == Kind::close) {
      static_cast<PosixFile*>(operation->file)
          ->identity->closed.store(true, std::memory_order_release);
      shared_.closes.fetch_add(1, std::memory_order_release);
    }
    if (transfers && operation->offset < 0) {
      operation->result = -EINVAL;
    } else {
      shared_.await_registered(*operation);
      execute_waiting(*operation);
      shared_.learn_registered_buffers(*operation, true);
    }
    std::atomic_ref(executed_).fetch_add(1, std::memory_order_relaxed);
    finished_.push(*operation);
  }
}

std::int64_t BlockingQueue::read_file(const char* path, std::span<std::byte> memory) {
  std::atomic_ref(executed_).fetch_add(1, std::memory_order_relaxed);
  return read_file_blocking(path, memory);
}

QueueStatistics BlockingQueue::statistics() const {
  QueueStatistics statistics;
  statistics.inline_operations =
      std::atomic_ref(const_cast<std::uint64_t&>(executed_)).load(std::memory_order_relaxed);
  return statistics;
}

}  // namespace ferry::storage
