// Uses kernel_call and no memory of the program's allocator outside start() and finish():
// the reads here may come from a signal handler.
#include "interpose/cached_reads.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"
#include "daemon/descriptor_path.hpp"
#include "interpose/say.hpp"
#include "interpose/serving_settings.hpp"

namespace ferry::run {

// What was read of one file, through all of its descriptors.
struct ReadTally {
  ReadTally* next;
  std::atomic<std::uint64_t> reads;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> kernel_reads[kernel_reasons];
  char path[1];  // and more
};

namespace {

// An offer costs some 50 us, and a read that is served saves some 0.3 us. Most programs that call
// pread once or twice look at a header, and those that call it more often do so very often. Reads
// at the position mostly go once through the file, which gains nothing: a new process has a fault
// for each 64 KiB of ferryd's memory, and ferryd may have to read the file first. So it is seeks
// that count for them.
constexpr unsigned pread_cost = 100;
constexpr unsigned seek_cost = 1;
constexpr unsigned cost_before_offer = 2 * pread_cost;
// What stands in the way of an offer often lasts: a writer, a ferryd that is not there or has no
// room. One that ferryd does not answer takes a second or two.
constexpr unsigned cost_before_next_offer = 1000 * pread_cost;
// Reads of more gain nothing: a copy costs the kernel as much.
constexpr std::uint64_t small_read_bytes = std::uint64_t{1} << 16;

constexpr std::uint64_t call_bytes_max = 0x7ffff000;  // the kernel's
constexpr auto offset_max = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
constexpr int vectors_max = 1024;

// The tallies: a hash table by path, whose entries are never removed, in memory of its own. Signal
// handlers may add some.
constexpr std::size_t tally_lists = 1024;
std::array<std::atomic<ReadTally*>, tally_lists> tallies;

void* take_memory(std::size_t bytes) {
  constexpr std::size_t block_bytes = std::size_t{1} << 18;
  static std::atomic<char*> block{nullptr};
  static_assert(sizeof(ReadTally) + PATH_MAX < block_bytes / 4);
  // The first word of a block is what is taken of it.
  bytes = (bytes + alignof(ReadTally) - 1) / alignof(ReadTally) * alignof(ReadTally);
  while (true) {
    char* here = block.load(std::memory_order_acquire);
    if (here != nullptr) {
      std::atomic_ref<std::uint64_t> taken(*reinterpret_cast<std::uint64_t*>(here));
      const std::uint64_t at = taken.fetch_add(bytes) + alignof(ReadTally);
      if (at + bytes <= block_bytes) return here + at;
    }
    void* fresh =
        mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return nullptr;
    if (!block.compare_exchange_strong(here, static_cast<char*>(fresh))) munmap(fresh, block_bytes);
  }
}

KernelReason reason_of(int error) {
  switch (error) {
    case EBUSY:
      return KernelReason::writers;
    case EOPNOTSUPP:
      return KernelReason::file_system;
    case EACCES:
    case EPERM:
      return KernelReason::other_user;
    case ENODATA:
      return KernelReason::empty;
    case ESTALE:
      return KernelReason::deleted;
    case ENFILE:
    case EMFILE:
      return KernelReason::too_many;
    case ENOTCONN:
    case EPIPE:
    case ECONNRESET:
    case ENOENT:
    case ECONNREFUSED:
    case EPROTO:
    case ETIMEDOUT:
      return KernelReason::no_daemon;
    default:
      return KernelReason::refused;
  }
}

// By KernelReason.
constexpr std::array<std::string_view, kernel_reasons> reason_texts{"before it was offered",
                                                                    "open for writing",
                                                                    "not such a file system",
                                                                    "another user's",
                                                                    "empty",
                                                                    "deleted",
                                                                    "too many files",
                                                                    "no ferryd",
                                                                    "refused",
                                                                    "missed",
                                                                    "position shared",
                                                                    "not for a cache"};

// The lines of the summary, in a buffer of fixed size: a handler of a signal may end the process
// where the interrupted thread is inside malloc.
class SummaryLines {
 public:
  explicit SummaryLines(int file) : file_(file) {}
  ~SummaryLines() { write_out(); }
  SummaryLines(const SummaryLines&) = delete;
  SummaryLines& operator=(const SummaryLines&) = delete;

  // Nothing for a file that was not read.
  void add(const ReadTally& tally) {
    std::array<std::uint64_t, kernel_reasons> reads{};
    std::transform(std::begin(tally.kernel_reads), std::end(tally.kernel_reads), reads.begin(),
                   [](const auto& one) { return one.load(std::memory_order_relaxed); });
    const std::uint64_t by_kernel = std::accumulate(reads.begin(), reads.end(), std::uint64_t{0});
    if (tally.reads + by_kernel == 0) return;
    if (text.size() - used_ < line_bytes_max) write_out();
    put("ferry-run: ");
    for (const char* at = tally.path; *at != '\0'; ++at)
      put({static_cast<unsigned char>(*at) < ' ' || *at == '\x7f' ? "?" : at, 1});
    put(": ");
    put(tally.reads);
    put(" reads of ");
    put(tally.bytes);
    put(" bytes served, ");
    put(by_kernel);
    put(" by the kernel");
    const char* before = " (";
    for (std::size_t reason = 0; reason < kernel_reasons; ++reason) {
      if (reads[reason] == 0) continue;
      put(std::exchange(before, ", "));
      put(reads[reason]);
      put(" ");
      put(reason_texts[reason]);
    }
    put(*before == ',' ? ")\n" : "\n");
  }

 private:
  void put(std::string_view piece) {
    used_ += piece.copy(text.data() + used_, text.size() - used_);
  }
  void put(std::uint64_t number) {
    char* const at = text.data() + used_;
    used_ +=
        static_cast<std::size_t>(std::to_chars(at, text.data() + text.size(), number).ptr - at);
  }
  void write_out() {
    kernel_call(SYS_write, file_, text.data(), used_);
    used_ = 0;
  }

  static constexpr std::size_t line_bytes_max = PATH_MAX + 1024;
  const int file_;
  std::size_t used_ = 0;
  static inline constinit std::array<char, std::size_t{1} << 14> text{};  // the one summary's
};

// Their sum, or 0 if ferryd cannot make the call. The kernel finds what is wrong with it.
std::uint64_t bytes_of(const iovec* vectors, int count, off_t offset) {
  if (count < 1 || count > vectors_max || offset < 0) return 0;
  std::uint64_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (vectors[i].iov_len > call_bytes_max) return 0;
    bytes += vectors[i].iov_len;
  }
  const bool fits =
      bytes <= call_bytes_max && static_cast<std::uint64_t>(offset) <= offset_max - bytes;
  return fits ? bytes : 0;
}

}  // namespace

constinit CachedReads CachedReads::only{};
constinit thread_local bool CachedReads::may_be_child = false;

void CachedReads::start() {
  process_ = static_cast<pid_t>(kernel_call(SYS_getpid));
  settings_ = ServingSettings::from_environment();
  if (settings_ == nullptr) return;
  if (!settings_->error.empty()) say({"ferry-run: ", settings_->error, "\n"});
  client_ = new (std::nothrow) daemon::Client(settings_->socket.c_str());
  is_on_.store(client_ != nullptr, std::memory_order_release);
}

// ---- phases ------------------------------------------------------------------------------------

bool CachedReads::change_from(Slot& slot, std::uint64_t word, SlotState to) {
  to.generation = SlotState::of(word).generation + 1;
  return slot.state.compare_exchange_strong(word, to.word());
}

// The state before.
std::uint64_t CachedReads::change(Slot& slot, Phase phase) {
  std::uint64_t word = slot.state.load(std::memory_order_acquire);
  while (!change_from(slot, word, {phase, KernelReason::too_few, cost_before_offer, 0}))
    word = slot.state.load(std::memory_order_acquire);
  slot.tally.store(nullptr, std::memory_order_relaxed);
  return word;
}

void CachedReads::opened(int descriptor, int flags) {
  const auto number = static_cast<unsigned>(descriptor);
  if (number >= descriptors_max) return;
  constexpr int refused = O_DIRECT | O_PATH | O_DIRECTORY;
  const bool may_be = is_on_.load(std::memory_order_acquire) && (flags & O_ACCMODE) == O_RDONLY &&
                      (flags & refused) == 0;
  if (is_in_child()) return;
  Slot& slot = slots_[number];
  // The C library may have a stream on a standard one, and reads past us.
  slot.position.opened(may_be && number > STDERR_FILENO);
  if (number == STDERR_FILENO) has_standard_error_.store(false);
  if (!may_be) {
    leave(descriptor);
    return;
  }
  unsigned end = end_.load();
  while (end <= number && !end_.compare_exchange_weak(end, number + 1)) {
  }
  change(slot, Phase::candidate);
}

void CachedReads::leave(int descriptor) {
  if (!may_serve(descriptor) || is_in_child()) return;
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  slot.position.give_back(descriptor);
  change(slot, Phase::none);
}

void CachedReads::copied(int descriptor) {
  if (may_serve(descriptor) && !is_in_child())
    slots_[static_cast<unsigned>(descriptor)].position.opened(false);
}

// It has this memory or a copy of it, but descriptors of its own.
bool CachedReads::is_in_child() const {
  if (!may_be_child && !shares_memory_.load(std::memory_order_relaxed)) return false;
  const bool is_child = static_cast<pid_t>(kernel_call(SYS_getpid)) != process_;
  // A thread that returns from vfork does so when the child has its own memory, or none.
  if (!is_child) may_be_child = false;
  return is_child;
}

// Only numbers that were candidates can be anything else than `none`.
unsigned CachedReads::end_of(unsigned last) const {
  const unsigned end = end_.load(std::memory_order_acquire);
  return last < end ? last + 1 : end;
}

void CachedReads::closing(unsigned first, unsigned last) {
  if (is_in_child()) return;
  for (const unsigned end = end_of(last); first < end; ++first)
    if (may_serve(static_cast<int>(first))) {
      change(slots_[first], Phase::changing);
      slots_[first].position.give_back(static_cast<int>(first));
    }
}

void CachedReads::closed(unsigned first, unsigned last) {
  if (is_in_child()) return;
  for (const unsigned end = end_of(last); first < end; ++first)
    if (may_serve(static_cast<int>(first))) change(slots_[first], Phase::candidate);
}

void CachedReads::stop() {
  if (is_in_child()) return;
  is_stopped_.store(true);
  is_on_.store(false);
  for (unsigned number = 0, end = end_.load(); number < end; ++number)
    leave(static_cast<int>(number));
}

void CachedReads::before_fork() {
  give_back_positions();
  is_own_offering_ = offering_.load() == static_cast<pid_t>(kernel_call(SYS_gettid));
}

void CachedReads::before_child(int flags) {
  const bool is_thread = (flags & CLONE_THREAD) != 0;
  // A process with these descriptors, which it closes unseen, or a thread with others.
  if (((flags & CLONE_FILES) != 0) != is_thread) stop();
  if (is_thread) return;
  give_back_positions();
  if ((flags & CLONE_VM) != 0 && (flags & CLONE_VFORK) == 0) {
    shares_memory_.store(true);
  } else {
    may_be_child = true;
  }
}

// The child has this thread alone, and its own numbers. What the parent has read is not its.
void CachedReads::after_fork_in_child() {
  process_ = static_cast<pid_t>(kernel_call(SYS_getpid));
  may_be_child = false;
  shares_memory_.store(false);
  // Of files that other threads opened since before_fork() too, whatever those did with them.
  for (unsigned number = 0, end = end_.load(); number < end; ++number) {
    if (!may_serve(static_cast<int>(number))) continue;
    slots_[number].position.opened(false);
    change(slots_[number], Phase::candidate);
  }
  offering_.store(is_own_offering_ ? static_cast<pid_t>(kernel_call(SYS_gettid)) : 0);
  for (std::atomic<ReadTally*>& list : tallies) {
    for (ReadTally* tally = list.load(); tally != nullptr; tally = tally->next) {
      tally->reads = 0;
      tally->bytes = 0;
      for (std::atomic<std::uint64_t>& reads : tally->kernel_reads)
        reads = 0;
    }
  }
}

// ---- reading -----------------------------------------------------------------------------------

ssize_t CachedReads::read_slowly(int descriptor, const iovec* vectors, int count, off_t offset) {
  if (is_in_child()) return -1;
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  const int saved = errno;
  std::uint64_t word = slot.state.load(std::memory_order_acquire);
  if (SlotState::of(word).phase != Phase::served)
    word = count_and_offer(descriptor, word, pread_cost);
  ssize_t got = -1;
  if (SlotState::of(word).phase == Phase::served) {
    got = read_served(slot, word, vectors, count, offset);
  } else {
    count_kernel_read(slot, SlotState::of(word).reason);
  }
  errno = saved;
  return got;
}

// ---- the position ------------------------------------------------------------------------------

// Whether it is ours, or becomes so now. errno stays.
bool CachedReads::has_position(int descriptor, const iovec* vectors, int count,
                               Position::Seen& seen) {
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  seen = slot.position.look();
  if (seen.is_ours()) return true;
  std::uint64_t word = slot.state.load(std::memory_order_acquire);
  const SlotState state = SlotState::of(word);
  // Most reads of files that are read once.
  const bool stays =
      !slot.position.may_be_taken() || (state.phase == Phase::candidate && state.left > 0);
  if (stays && !settings_->wants_summary) return false;
  const int saved = errno;
  const std::uint64_t bytes = bytes_of(vectors, count, 0);
  KernelReason reason = KernelReason::other;
  if (state.phase == Phase::candidate && settings_->wants_summary &&
      !find_tally_of(descriptor, word)) {
    errno = saved;
    return false;
  }
  if (!slot.position.may_be_taken()) {
    reason = KernelReason::position;
  } else if (bytes > 0 && bytes <= small_read_bytes) {
    if (SlotState::of(word).phase != Phase::served) word = count_and_offer(descriptor, word, 0);
    reason = SlotState::of(word).reason;
    if (SlotState::of(word).phase == Phase::served && takes_positions_.load()) {
      // `changing` comes before the position is given back (closing): one of the two is seen here.
      slot.position.take(descriptor, [&] { return slot.state.load() == word; });
      seen = slot.position.look();
      reason = KernelReason::position;
    }
  }
  if (!seen.is_ours()) count_kernel_read(slot, reason);
  errno = saved;
  return seen.is_ours();
}

// Within the file as it is served. Whether the kernel would go elsewhere depends on the file
// system.
bool CachedReads::seek_here(int descriptor, off_t offset, int whence, off_t& reached) {
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  while (true) {
    const Position::Seen seen = slot.position.look();
    if (!seen.is_ours()) return false;
    const std::uint64_t word = slot.state.load(std::memory_order_acquire);
    daemon::ServedFile file;
    if (SlotState::of(word).phase != Phase::served || !load(slot, word, file)) return false;
    const std::int64_t size = client_->size_bytes(file);
    if (size < 0) return false;
    std::int64_t from = 0;
    if (whence == SEEK_CUR) {
      from = seen.offset();
    } else if (whence == SEEK_END) {
      from = size;
    } else if (whence != SEEK_SET) {
      return false;
    }
    std::int64_t to = 0;
    if (__builtin_add_overflow(from, offset, &to) || to < 0 ||
        to > std::min(size, Position::offset_max))
      return false;
    reached = to;
    if (slot.position.move(seen, to)) return true;
  }
}

// A seek of a file that is not served.
void CachedReads::count_seek(int descriptor, off_t offset, int whence) {
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  std::uint64_t word = slot.state.load(std::memory_order_acquire);
  SlotState state = SlotState::of(word);
  const bool asks_only = whence == SEEK_CUR && offset == 0;
  if (state.phase != Phase::candidate || state.left == 0 || asks_only ||
      !slot.position.may_be_taken())
    return;
  state.left -= std::min(state.left, seek_cost);
  slot.state.compare_exchange_strong(word, state.word());
}

void CachedReads::give_back_slowly(int descriptor) {
  if (!is_in_child()) slots_[static_cast<unsigned>(descriptor)].position.give_back(descriptor);
}

void CachedReads::give_back_positions() {
  if (is_in_child()) return;
  for (unsigned number = 0, end = end_.load(); number < end; ++number)
    if (may_serve(static_cast<int>(number)))
      slots_[number].position.give_back(static_cast<int>(number));
}

void CachedReads::leave_positions() {
  takes_positions_.store(false);
  give_back_positions();
}

// ---- bytes -------------------------------------------------------------------------------------

// S3.
bool CachedReads::load(const Slot& slot, std::uint64_t word, daemon::ServedFile& file) const {
  const std::uint64_t both = slot.entry_and_inode.load(std::memory_order_acquire);
  file.entry = static_cast<std::uint32_t>(both);
  file.inode = static_cast<std::uint32_t>(both >> 32);
  file.mark = slot.mark.load(std::memory_order_acquire);
  return slot.state.load(std::memory_order_relaxed) == word;
}

ssize_t CachedReads::read_served(Slot& slot, std::uint64_t word, const iovec* vectors, int count,
                                 off_t offset) {
  pthread_testcancel();  // as POSIX has it
  daemon::ServedFile file;
  if (bytes_of(vectors, count, offset) == 0 || !load(slot, word, file)) {
    count_kernel_read(slot, KernelReason::other);
    return -1;
  }
  std::uint64_t done = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t wanted = vectors[i].iov_len;
    if (wanted == 0) continue;
    const std::int64_t got = client_->pread(file, vectors[i].iov_base, wanted,
                                            static_cast<std::uint64_t>(offset) + done);
    if (got < 0) {  // the kernel makes all of the call
      if (got != daemon::Client::missed)
        change_from(slot, word, {Phase::candidate, KernelReason::too_few, cost_before_offer, 0});
      count_kernel_read(slot, KernelReason::missed);
      return -1;
    }
    done += static_cast<std::uint64_t>(got);
    if (static_cast<std::uint64_t>(got) < wanted) break;
  }
  if (ReadTally* tally = slot.tally.load(std::memory_order_relaxed); tally != nullptr) {
    tally->reads.fetch_add(1, std::memory_order_relaxed);
    tally->bytes.fetch_add(done, std::memory_order_relaxed);
  }
  return static_cast<ssize_t>(done);
}

// ---- offering ----------------------------------------------------------------------------------

// A read of a file that is not served; returns the state that it leaves.
std::uint64_t CachedReads::count_and_offer(int descriptor, std::uint64_t word, unsigned cost) {
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  SlotState state = SlotState::of(word);
  if (state.phase != Phase::candidate) return word;
  if (settings_->wants_summary && !find_tally_of(descriptor, word)) return 0;
  if (state.left == 0) return offer(descriptor, word);
  if (cost == 0) return word;
  // If two threads count at once, one is not counted.
  state.left -= std::min(state.left, cost);
  slot.state.compare_exchange_strong(word, state.word());
  return state.word();
}

// Of a candidate. False if it is none: then it is left.
bool CachedReads::find_tally_of(int descriptor, std::uint64_t word) {
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  if (slot.tally.load(std::memory_order_relaxed) != nullptr || !hold_offering()) return true;
  const bool may_be = may_offer(descriptor);
  if (may_be) slot.tally.store(find_tally(path_.data()), std::memory_order_relaxed);
  offering_.store(0, std::memory_order_release);
  if (may_be) return true;
  give_back_slowly(descriptor);
  change_from(slot, word, {});
  return false;
}

bool CachedReads::hold_offering() {
  pid_t nobody = 0;
  return offering_.compare_exchange_strong(nobody, static_cast<pid_t>(kernel_call(SYS_gettid)));
}

std::uint64_t CachedReads::offer(int descriptor, std::uint64_t word) {
  Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  if (!hold_offering()) return word;  // the next read tries again
  std::uint64_t now = word;
  // A child of vfork has descriptors of its own, and a child that no handler saw a copy of this.
  if (static_cast<pid_t>(kernel_call(SYS_getpid)) == process_ &&
      slot.state.load(std::memory_order_acquire) == word) {
    const SlotState found = ask(descriptor, slot);
    if (found.phase == Phase::none) give_back_slowly(descriptor);
    if (change_from(slot, word, found)) now = slot.state.load(std::memory_order_acquire);
  }
  offering_.store(0, std::memory_order_release);
  return now;
}

// S2: the caller holds `offering_`.
CachedReads::SlotState CachedReads::ask(int descriptor, Slot& slot) {
  if (!is_on_.load() || !may_offer(descriptor)) return {};
  daemon::ServedFile file;
  const int error = client_->offer(descriptor, file);
  if (error == 0) {
    slot.entry_and_inode.store(std::uint64_t{file.inode} << 32 | file.entry,
                               std::memory_order_release);
    slot.mark.store(file.mark, std::memory_order_release);
    return {Phase::served, KernelReason::too_few, 0, 0};
  }
  if (error == EAGAIN) return {Phase::candidate, KernelReason::too_few, cost_before_offer, 0};
  const KernelReason reason = reason_of(error);
  const bool may_pass = reason == KernelReason::writers || reason == KernelReason::no_daemon ||
                        reason == KernelReason::too_many || reason == KernelReason::empty;
  if (may_pass) return {Phase::candidate, reason, cost_before_next_offer, 0};
  return {Phase::refused, reason, 0, 0};
}

// S5: a regular file, open for reading only, in a place that is ours. Its name goes to `path_`.
bool CachedReads::may_offer(int descriptor) {
  struct stat status {};
  if (kernel_call(SYS_newfstatat, descriptor, "", &status, AT_EMPTY_PATH) != 0) return false;
  if (!S_ISREG(status.st_mode)) return false;
  const long flags = kernel_call(SYS_fcntl, descriptor, F_GETFL, 0);
  if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || (flags & (O_DIRECT | O_PATH)) != 0)
    return false;
  const long length = kernel_call(SYS_readlinkat, AT_FDCWD, daemon::DescriptorPath(descriptor).text,
                                  path_.data(), path_.size() - 1);
  if (length <= 0) return false;
  path_[static_cast<std::size_t>(length)] = '\0';
  return settings_->takes(path_.data());
}

// ---- the summary -------------------------------------------------------------------------------

ReadTally* CachedReads::find_tally(const char* path) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char* at = path; *at != '\0'; ++at)
    hash = (hash ^ static_cast<unsigned char>(*at)) * 1099511628211U;
  std::atomic<ReadTally*>& list = tallies[hash % tally_lists];
  ReadTally* fresh = nullptr;
  ReadTally* first = list.load(std::memory_order_acquire);
  while (true) {
    for (ReadTally* tally = first; tally != nullptr; tally = tally->next)
      if (std::strcmp(tally->path, path) == 0) return tally;
    if (fresh == nullptr) {
      const std::size_t length = std::strlen(path);
      void* memory = take_memory(sizeof(ReadTally) + length);
      if (memory == nullptr) return nullptr;
      fresh = new (memory) ReadTally{};
      std::memcpy(fresh->path, path, length + 1);
    }
    fresh->next = first;
    if (list.compare_exchange_strong(first, fresh)) return fresh;
  }
}

void CachedReads::count_kernel_read(const Slot& slot, KernelReason reason) const {
  if (ReadTally* tally = slot.tally.load(std::memory_order_relaxed); tally != nullptr)
    tally->kernel_reads[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

void CachedReads::count_copy(int descriptor) {
  if (!may_serve(descriptor) || is_in_child() || !settings_->wants_summary) return;
  const Slot& slot = slots_[static_cast<unsigned>(descriptor)];
  const std::uint64_t word = slot.state.load(std::memory_order_acquire);
  if (SlotState::of(word).phase != Phase::candidate || find_tally_of(descriptor, word))
    count_kernel_read(slot, KernelReason::other);
}

void CachedReads::closing_standard_error() {
  if (settings_ != nullptr && settings_->summary == "-") finish();
}

void CachedReads::finish() {
  if (settings_ == nullptr || !settings_->wants_summary) return;
  // A child of vfork that could not run its program ends here, in its parent's memory.
  if (static_cast<pid_t>(kernel_call(SYS_getpid)) != process_ || is_finished_.exchange(true))
    return;
  const bool was_read = std::any_of(tallies.begin(), tallies.end(),
                                    [](const auto& list) { return list.load() != nullptr; });
  if (!was_read) return;
  const bool has_file = settings_->summary != "-";
  if (!has_file && !has_standard_error_.load()) return;
  int file = -1;
  if (!has_file) {
    file = STDERR_FILENO;
  } else {
    file = static_cast<int>(kernel_call(SYS_openat, AT_FDCWD, settings_->summary.c_str(),
                                        O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0644));
    if (file < 0) {
      say({"ferry-run: FERRY_RUN_SUMMARY: ", settings_->summary, ": ", text_of(-file), "\n"});
      return;
    }
  }
  {
    SummaryLines lines(file);
    for (const std::atomic<ReadTally*>& list : tallies)
      for (const ReadTally* tally = list.load(); tally != nullptr; tally = tally->next)
        lines.add(*tally);
  }
  if (has_file) kernel_call(SYS_close, file);
}

}  // namespace ferry::run
