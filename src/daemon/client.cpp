#include "daemon/client.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ferry/device/cache/hits.hpp>

#include "base/forks.hpp"
#include "base/futex.hpp"
#include "base/kernel_call.hpp"
#include "base/uncancelled.hpp"
#include "daemon/descriptor_path.hpp"
#include "daemon/messages.hpp"

namespace ferry::daemon {

namespace cache = device::cache;

struct Client::Attached {
  std::uint64_t number = 0;  // never the same in a process and its children
  void* base = nullptr;
  std::uint64_t bytes = 0;
  cache::View view;
  SharedTable* table = nullptr;
  std::uint32_t first_group = 0;
};

// Lies in a page that is zero in a child of fork.
struct Client::Life {
  std::atomic<std::uint64_t> attachment;  // 0: not attached
  std::atomic<std::uint32_t> attaching;   // 1: a thread does
};

// A thread's place among the readers, and what it missed last.
struct Client::Place {
  Client* client = nullptr;
  std::uint64_t attachment = 0;  // that the place belongs to; 0: none
  std::uint64_t refused = 0;     // that had no place left
  std::uint64_t hung_up = 0;     // that hung up last, when it was asked for a place
  std::uint32_t hang_ups = 0;    // so often
  std::uint32_t reader = 0;
  std::uint64_t next_page = 0;  // after the last miss
  std::uint32_t next_entry = 0;
  std::uint32_t window = 1;
};

namespace {

constexpr int answer_ms = 1000;
// ferryd hangs up on who does not send at once, as happens where the CPUs are busy. A thread is
// served by the kernel then, and asks again with its next reads, so often.
constexpr std::uint32_t hang_ups_max = 10;

// Keeps the loads of a copy before the loads that follow. The thread sanitizer knows no fences; it
// runs on processors that keep loads in order.
void finish_copy() {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}
constexpr unsigned reader_bits = 16;  // of a reader's number + 1
static_assert(readers_max < 1U << reader_bits);

// The cache's memory counts against such a limit, and the program would miss it.
bool has_address_space_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// Read-only memory of `file`, of which no page is there yet, also after mlockall(MCL_FUTURE): the
// kernel populates no memory without access.
void* map_unlocked(int file, std::uint64_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) return base;
  if (munlock(base, bytes) == 0 && mprotect(base, bytes, PROT_READ) == 0) return base;
  munmap(base, bytes);
  return MAP_FAILED;
}

// Whether what ferryd tells of its memory lies in it, and all that the layout says in the cache.
bool fits_into(const SharedMemory& memory, int file) {
  struct stat status {};
  // Not the C library's function, which `ferry run` stands in for.
  if (kernel_call(SYS_newfstatat, file, "", &status, AT_EMPTY_PATH) != 0 ||
      memory.bytes > static_cast<std::uint64_t>(status.st_size))
    return false;
  const auto lies_inside = [&](std::uint64_t at, std::uint64_t bytes) {
    return at % alignof(SharedTable) == 0 && at <= memory.bytes && bytes <= memory.bytes - at;
  };
  const cache::CacheLayout& layout = memory.layout;
  const cache::CacheGeometry& geometry = layout.geometry;
  const std::uint32_t page_bytes = geometry.page_bytes;
  const bool is_possible =
      page_bytes >= cache::page_bytes_min && page_bytes <= cache::page_bytes_max &&
      (page_bytes & (page_bytes - 1)) == 0 && geometry.frames <= cache::frames_max &&
      geometry.inodes <= 1U << cache::inode_bits && geometry.groups <= cache::groups_max &&
      geometry.groups >= readers_max && memory.first_group <= geometry.groups - readers_max;
  if (!is_possible) return false;
  const cache::CacheLayout right = cache::lay_out(geometry);
  return right.page_shift == layout.page_shift && right.bucket_mask == layout.bucket_mask &&
         right.counters == layout.counters && right.marks == layout.marks &&
         right.readers == layout.readers && right.buckets == layout.buckets &&
         right.frames == layout.frames && right.pages == layout.pages &&
         lies_inside(memory.table, sizeof(SharedTable)) && lies_inside(memory.cache, right.bytes);
}

std::atomic<std::uint64_t> attachments{0};  // numbers so far
pthread_key_t leaving_key;
std::atomic<bool> has_leaving_key{false};

}  // namespace

Client::Client(const char* socket_path) {
  const std::size_t length = std::strlen(socket_path);
  if (length < sizeof path_) std::memcpy(path_, socket_path, length);
  if (path_[0] == '\0') return;
  if (void* page = make_page_that_forks_empty(); page != nullptr) life_ = new (page) Life{};
  has_leaving_key = pthread_key_create(&leaving_key, leave) == 0;
}

int Client::ask(DaemonRequest& request, int descriptor, DaemonAnswer& answer, int& received) const {
  received = -1;
  const int socket = connect_to(path_, answer_ms);
  if (socket < 0) return -socket;
  const int error = exchange(socket, request, descriptor, answer, received);
  close(socket);
  return error;
}

// ---- attaching ---------------------------------------------------------------------------------

int Client::attach() {
  if (has_address_space_limit()) return ENOMEM;
  DaemonRequest request;
  request.kind = RequestKind::attach;
  DaemonAnswer answer;
  int file = -1;
  if (const int error = ask(request, -1, answer, file); error != 0) return error;
  const SharedMemory& memory = answer.memory;
  const bool fits = file >= 0 && fits_into(memory, file);
  void* base = fits ? map_unlocked(file, memory.bytes) : MAP_FAILED;
  if (file >= 0) close(file);
  if (!fits) return EPROTO;
  if (base == MAP_FAILED) return ENOMEM;
  auto* bytes = static_cast<unsigned char*>(base);
  // The cache's records and the table; the files' data stay as they are.
  constexpr int both = PROT_READ | PROT_WRITE;
  // Memory of its own, which is never freed: a reader may still use it, and this thread may be in a
  // signal handler.
  void* space = mmap(nullptr, sizeof(Attached), both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED || mprotect(bytes + memory.cache, memory.layout.pages, both) != 0 ||
      mprotect(bytes + memory.table, sizeof(SharedTable), both) != 0) {
    if (space != MAP_FAILED) munmap(space, sizeof(Attached));
    munmap(base, memory.bytes);
    return ENOMEM;
  }
  auto* here = new (space) Attached;
  madvise(base, memory.bytes, MADV_HUGEPAGE);
  madvise(base, memory.bytes, MADV_DONTDUMP);  // the program's core is its own
  here->number = attachments.fetch_add(1) + 1;
  here->base = base;
  here->bytes = memory.bytes;
  here->view.base = bytes + memory.cache;
  here->view.layout = memory.layout;
  here->table = reinterpret_cast<SharedTable*>(bytes + memory.table);
  here->first_group = memory.first_group;
  const Attached* before = attached_.exchange(here, std::memory_order_acq_rel);
  keep(here->number, answer.readers, answer.reader_count);
  life_->attachment.store(here->number, std::memory_order_release);
  // Threads may be in the middle of reads of an earlier attachment. They find zeros, and so no file
  // that is served (a mark is odd); the memory of a ferryd that is gone is free.
  if (before != nullptr)
    static_cast<void>(mmap(before->base, before->bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
  return 0;
}

int Client::offer(int descriptor, ServedFile& file) {
  if (life_ == nullptr) return ENOTCONN;
  const Uncancelled section;
  const long flags = kernel_call(SYS_fcntl, descriptor, F_GETFL, 0);
  if (flags < 0) return EBADF;
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH) != 0) return EOPNOTSUPP;
  const Attached* here = attached_.load(std::memory_order_acquire);
  const bool holds = here != nullptr && life_->attachment.load() == here->number &&
                     (here->table->alive.load() & FUTEX_OWNER_DIED) == 0;
  if (!holds) {
    if (life_->attaching.exchange(1) != 0) return EAGAIN;  // another thread is at it
    const int error = attach();
    life_->attaching.store(0);
    if (error != 0) return error;
  }
  DaemonRequest request;
  request.kind = RequestKind::offer;
  DaemonAnswer answer;
  int received = -1;
  // Not the program's own: its flock locks would last until ferryd has closed its copy. O_PATH,
  // since closing an ordinary descriptor ends the locks that the process took by fcntl.
  const long sent =
      kernel_call(SYS_openat, AT_FDCWD, DescriptorPath(descriptor).text, O_PATH | O_CLOEXEC);
  if (sent < 0) return static_cast<int>(-sent);
  const int error = ask(request, static_cast<int>(sent), answer, received);
  kernel_call(SYS_close, sent);
  if (error == 0) file = answer.file;
  return error;
}

void Client::keep(std::uint64_t attachment, const std::uint32_t* readers, std::uint32_t count) {
  std::uint32_t next = 0;
  for (std::atomic<std::uint64_t>& one : spare_) {
    if (next == count) return;
    std::uint64_t there = one.load();
    const bool is_free = there == 0 || there >> reader_bits != attachment;
    if (is_free &&
        one.compare_exchange_strong(there, attachment << reader_bits | (readers[next] + 1)))
      ++next;
  }
}

bool Client::take_spare(std::uint64_t attachment, std::uint32_t& reader) {
  for (std::atomic<std::uint64_t>& one : spare_) {
    std::uint64_t there = one.load();
    if (there == 0 || there >> reader_bits != attachment) continue;
    if (!one.compare_exchange_strong(there, 0)) continue;
    reader = static_cast<std::uint32_t>(there & ((1U << reader_bits) - 1)) - 1;
    return true;
  }
  return false;
}

// Gives this thread a place. Uses nothing that a signal handler may not.
bool Client::enter(Place& place) {
  const std::uint64_t number = life_->attachment.load(std::memory_order_acquire);
  if (number == 0 || place.refused == number) return false;
  std::uint32_t reader = 0;
  if (!take_spare(number, reader)) {
    const Uncancelled section;
    DaemonRequest request;
    request.kind = RequestKind::more_readers;
    DaemonAnswer answer;
    int received = -1;
    const int error = ask(request, -1, answer, received);
    if (error == 0) keep(number, answer.readers, answer.reader_count);
    if (!take_spare(number, reader)) {
      if (std::exchange(place.hung_up, number) != number) place.hang_ups = 0;
      const bool hung_up = error == EPIPE || error == ENOTCONN || error == ECONNRESET;
      if (!hung_up || ++place.hang_ups >= hang_ups_max) place.refused = number;
      return false;
    }
  }
  place.reader = reader;
  place.client = this;
  place.attachment = number;
  if (has_leaving_key) pthread_setspecific(leaving_key, &place);
  return true;
}

// The thread ends.
void Client::leave(void* argument) {
  Place& place = *static_cast<Place*>(argument);
  const std::uint64_t number = place.attachment;
  place.attachment = 0;
  place.refused = ~std::uint64_t{0};  // of its last destructors' reads
  place.client->keep(number, &place.reader, 1);
}

// ---- reading -----------------------------------------------------------------------------------

std::int64_t Client::pread(const ServedFile& file, void* to, std::uint64_t bytes,
                           std::uint64_t offset) {
  static thread_local Place place;
  // An even mark is nobody's: such a file was never served.
  if (life_ == nullptr || (file.mark & 1) == 0) return gone;
  const std::uint64_t number = life_->attachment.load(std::memory_order_acquire);
  if (place.attachment != number || number == 0) {
    if (number == 0) return gone;  // a child of fork: its next offer attaches it
    if (!enter(place)) return missed;
  }
  const Attached& here = *attached_.load(std::memory_order_acquire);
  if (here.number != place.attachment) return missed;
  const FileEntry& entry = here.table->files[file.entry];
  const std::uint64_t size = entry.size_bytes.load(std::memory_order_relaxed);
  std::uint64_t wanted = 0;
  bool whole = true;
  if (offset < size) {
    wanted = std::min(bytes, size - offset);
    whole = copy(here, here.first_group + place.reader, file, static_cast<unsigned char*>(to),
                 wanted, offset);
  }
  if (!stands(here, file)) return gone;
  if (whole) return static_cast<std::int64_t>(wanted);
  hint(here, place, file, offset, wanted);
  return missed;
}

std::int64_t Client::size_bytes(const ServedFile& file) const {
  const Attached* here = attached_.load(std::memory_order_acquire);
  if (here == nullptr || (file.mark & 1) == 0) return gone;
  const std::uint64_t size =
      here->table->files[file.entry].size_bytes.load(std::memory_order_relaxed);
  return stands(*here, file) ? static_cast<std::int64_t>(size) : gone;
}

// D3: whether what was loaded before is of the file.
bool Client::stands(const Attached& here, const ServedFile& file) const {
  finish_copy();
  return (here.table->alive.load(std::memory_order_relaxed) & FUTEX_OWNER_DIED) == 0 &&
         here.table->files[file.entry].mark.load(std::memory_order_relaxed) == file.mark &&
         // A handler of a signal that came meanwhile may have forked.
         life_->attachment.load(std::memory_order_relaxed) == here.number;
}

// Each page in turn. A signal handler that reads on this thread uses the same mark: what it
// interrupted finds its mark gone.
bool Client::copy(const Attached& here, std::uint32_t group, const ServedFile& file,
                  unsigned char* to, std::uint64_t bytes, std::uint64_t offset) const {
  const cache::View& view = here.view;
  const device::DeviceRef<std::uint32_t> mark(view.mark(group).frame);
  const std::uint64_t page_mask = view.page_bytes() - 1;
  while (bytes > 0) {
    const std::uint64_t begin = offset & page_mask;
    const std::uint64_t step = std::min(bytes, view.page_bytes() - begin);
    const std::uint64_t key = cache::key_of(file.inode, offset >> view.layout.page_shift);
    const auto copied_from = [&](std::uint32_t frame) {
      // Every process that ferryd serves can store into the table.
      if (frame >= view.layout.geometry.frames) return false;
      mark.store(frame + 1, device::seq_cst);  // M1
      const std::uint64_t state =
          device::DeviceRef<std::uint64_t>(view.frame(frame).state).load(device::seq_cst);
      const bool hit = cache::is_hit(view, group, frame, key, state);
      if (hit) std::memcpy(to, view.page(frame) + begin, step);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      const bool kept = mark.load(device::acquire) == frame + 1;
      mark.store(0, device::release);
      return hit && kept;
    };
    if (cache::PageTable(view).find(cache::hash_of(key), key, copied_from) == cache::no_frame)
      return false;
    to += step;
    offset += step;
    bytes -= step;
  }
  return true;
}

// A sequence of misses asks for more each time.
void Client::hint(const Attached& here, Place& place, const ServedFile& file, std::uint64_t offset,
                  std::uint64_t bytes) {
  const unsigned shift = here.view.layout.page_shift;
  const std::uint64_t first = offset >> shift;
  const std::uint64_t end = ((offset + bytes - 1) >> shift) + 1;
  const bool goes_on = file.entry == place.next_entry && first + 1 >= place.next_page &&
                       first <= place.next_page + place.window;
  place.window = goes_on ? std::min(place.window * 2, hint_pages_max) : 1;
  const std::uint64_t wanted = std::max<std::uint64_t>(end - first, place.window);
  PageHint told{file.entry, first,
                static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, hint_pages_max))};
  place.next_entry = file.entry;
  place.next_page = end;
  SharedTable& table = *here.table;
  table.hints[place.reader].hint.store(told.word(), std::memory_order_release);
  const std::uint64_t bit = std::uint64_t{1} << place.reader % SharedTable::word_bits;
  table.hinted[place.reader / SharedTable::word_bits].fetch_or(bit);
  if (table.filler_sleeps.load() == 0) return;
  table.bell.fetch_add(1);
  futex_wake_all_shared(reinterpret_cast<const std::uint32_t*>(&table.bell));
}

}  // namespace ferry::daemon
