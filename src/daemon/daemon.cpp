#include "daemon/daemon.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/futex.hpp"
#include "base/socket_messages.hpp"

namespace ferry::daemon {
namespace {

// How long a client that has connected may take to send its request, which it has ready.
constexpr timeval request_time{0, 100'000};
constexpr std::chrono::milliseconds look_around{1000};
constexpr std::chrono::milliseconds accept_nap{5};
constexpr std::uint64_t filler_nap_ns = 1'000'000'000;
constexpr unsigned threads = 2;  // front and filler
constexpr std::uint64_t heap_bytes = std::uint64_t{1} << 20;

RuntimeOptions runtime_options(const DaemonOptions& options) {
  RuntimeOptions runtime;
  runtime.device_threads = threads;
  runtime.server_threads = 1;
  runtime.arena_bytes = heap_bytes;
  runtime.cache_bytes = options.cache_bytes;
  runtime.page_bytes = 64 << 10;
  runtime.reader_groups = readers_max;
  runtime.placement = device::Placement::compute;
  runtime.use_profile = false;
  // io_uring would register the arena, and so fill all of it with memory now.
  runtime.engine = StorageEngine::threads;
  runtime.files_max = 2 * files_max;  // files are being closed while others take their entries
  runtime.device_spin = std::chrono::microseconds(0);  // idle, it takes no CPU
  runtime.server_spin = std::chrono::microseconds(0);
  return runtime;
}

}  // namespace

Daemon::Daemon(const DaemonOptions& options)
    : options_(options),
      socket_(options.socket),
      runtime_(runtime_options(options)),
      table_memory_(runtime_.allocate(sizeof(SharedTable), table_alignment_bytes)),
      table_(*new (table_memory_.data()) SharedTable{}),
      cache_(runtime_.context().cache),
      first_group_(cache_.layout.geometry.groups - readers_max),
      alive_(table_.alive),
      files_(table_, cache_, options.least_stay),
      clients_(table_, cache_, first_group_),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw Error(errno, "an eventfd");
}

Daemon::~Daemon() {
  close(wake_);
}

void Daemon::serve() {
  runtime_.run([this](DeviceThread& self) {
    if (self.index == 0) {
      front(self.files);
      files_.close_all(self.files);
    } else {
      fill(self.files);
    }
  });
  if (server_has_ended()) throw Error(EIO, "ferryd's server has ended");
}

// It had no memory to begin, or hung.
bool Daemon::server_has_ended() const {
  device::LoopState& server = runtime_.context().arena.loop_state(0);
  return device::SystemRef<device::LoopPhase>(server.phase).load(device::acquire) ==
         device::LoopPhase::dead;
}

void Daemon::stop() {
  stopping_.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof one));
}

// ---- front -------------------------------------------------------------------------------------

void Daemon::front(Calls& calls) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_client = Clock::now();
  Clock::time_point last_look = last_client;
  std::vector<pollfd> list;
  while (!stopping_.load()) {
    try {
      list.assign({{socket_.descriptor(), POLLIN, 0}, {wake_, POLLIN, 0}});
      clients_.watched(list);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(accept_nap);
      continue;
    }
    poll(list.data(), list.size(), static_cast<int>(look_around.count()));
    for (std::size_t i = 2; i < list.size(); ++i)
      if (list[i].revents != 0) clients_.ended(list[i].fd);
    if (server_has_ended()) stop();
    files_.close_broken(calls);
    if (list[0].revents != 0) answer_one(calls);
    const Clock::time_point now = Clock::now();
    if (clients_.count() > 0) last_client = now;
    if (now - last_look >= look_around) {
      last_look = now;
      files_.close_deleted(calls);
      if (!socket_.has_its_name()) stop();
      // Nobody reads: let file systems be unmounted. The pages stay; an offer finds them again.
      if (now - last_client >= look_around) files_.close_all(calls);
    }
    if (options_.idle.count() > 0 && now - last_client >= options_.idle) stop();
  }
  table_.bell.fetch_add(1);
  futex_wake_all_shared(reinterpret_cast<const std::uint32_t*>(&table_.bell));
}

void Daemon::answer_one(Calls& calls) {
  const int socket = accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) {
    // The client stays in the queue, so the next look would come at once.
    if (errno == EMFILE || errno == ENFILE) files_.close_oldest(calls);
    std::this_thread::sleep_for(accept_nap);
    return;
  }
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &request_time, sizeof request_time);
  pid_t process = 0;
  DaemonRequest request;
  int descriptor = -1;
  int error = EPERM;
  if (is_own_process(socket, process) && process != 0)
    error = receive_message(socket, &request, sizeof request, descriptor);
  // EMFILE: the request is there, and its descriptor is not.
  if (error == 0 || error == EMFILE) {
    DaemonAnswer reply;
    const bool same = request.magic == messages_magic && request.version == messages_version;
    if (error != 0) {
      reply.error = error;
    } else if (same) {
      answer(calls, request, descriptor, process, reply);
    } else {
      reply.error = EPROTO;
    }
    // The program offers it again.
    if (reply.error == EMFILE) files_.close_oldest(calls);
    const bool attaches = same && request.kind == RequestKind::attach && reply.error == 0;
    send_message(socket, &reply, sizeof reply, attaches ? runtime_.arena_file() : -1);
  }
  if (descriptor >= 0) close(descriptor);
  close(socket);
}

void Daemon::answer(Calls& calls, const DaemonRequest& request, int descriptor, pid_t process,
                    DaemonAnswer& reply) try {
  switch (request.kind) {
    case RequestKind::attach:
      reply.error = clients_.attach(process);
      reply.memory = describe_memory();
      [[fallthrough]];
    case RequestKind::more_readers:
      if (reply.error == 0)
        reply.reader_count = clients_.take_readers(process, reply.readers, readers_at_once);
      return;
    case RequestKind::offer:
      reply.error = descriptor >= 0 ? files_.offer(calls, descriptor, reply.file) : EBADF;
      return;
    case RequestKind::status:
      reply.status = status();
      return;
    case RequestKind::stop:
      reply.status = status();
      stop();
      return;
  }
  reply.error = EINVAL;
} catch (const std::bad_alloc&) {
  reply.error = ENOMEM;
}

SharedMemory Daemon::describe_memory() const {
  const device::ArenaView& arena = runtime_.context().arena;
  SharedMemory memory;
  memory.bytes = arena.layout.geometry.arena_bytes;
  memory.table = arena.offset_of(&table_);
  memory.cache = arena.offset_of(cache_.base);
  memory.layout = cache_.layout;
  memory.first_group = first_group_;
  return memory;
}

DaemonStatus Daemon::status() const {
  const RuntimeStatistics statistics = runtime_.statistics();
  DaemonStatus status;
  status.pid = getpid();
  status.clients = clients_.count();
  status.files = files_.count();
  status.cache_bytes = std::uint64_t{cache_.layout.geometry.frames} * cache_.page_bytes();
  for (std::uint32_t frame = 0; frame < cache_.layout.geometry.frames; ++frame) {
    const std::uint64_t state =
        device::DeviceRef<std::uint64_t>(cache_.frame(frame).state).load(device::relaxed);
    constexpr std::uint64_t looked_at = device::cache::State::valid | device::cache::State::taken;
    if ((state & looked_at) == device::cache::State::valid)
      status.cached_bytes += cache_.page_bytes();
  }
  status.hits = statistics.cache.hits;
  status.fills = statistics.cache.fills;
  status.breaks = files_.breaks();
  return status;
}

// ---- filler ------------------------------------------------------------------------------------

void Daemon::fill(Calls& calls) {
  while (!stopping_.load()) {
    for (std::uint32_t word = 0; word < readers_max / SharedTable::word_bits; ++word) {
      std::uint64_t left = table_.hinted[word].exchange(0);
      for (; left != 0; left &= left - 1) {
        const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(left));
        const std::uint32_t reader = word * SharedTable::word_bits + bit;
        bring_in(calls, PageHint::of(table_.hints[reader].hint.load(std::memory_order_acquire)));
      }
    }
    if (wait_for_hints()) return;
  }
}

// Sleeps unless there are hints. Whether to stop.
bool Daemon::wait_for_hints() {
  const std::uint32_t before = table_.bell.load();
  table_.filler_sleeps.store(1);
  bool hinted = stopping_.load();
  for (const std::atomic<std::uint64_t>& word : table_.hinted)
    hinted = hinted || word.load() != 0;
  if (!hinted)
    futex_wait_shared(reinterpret_cast<const std::uint32_t*>(&table_.bell), before, filler_nap_ns);
  table_.filler_sleeps.store(0);
  return stopping_.load();
}

// Anything may stand in a hint.
void Daemon::bring_in(Calls& calls, const PageHint& hint) {
  if (hint.entry >= files_max || hint.pages > hint_pages_max) return;
  const std::int32_t handle = files_.handle(hint.entry);
  const std::uint64_t page_bytes = cache_.page_bytes();
  const std::uint64_t size = table_.files[hint.entry].size_bytes.load(std::memory_order_relaxed);
  const std::uint64_t pages = (size + page_bytes - 1) / page_bytes;
  if (handle == 0 || hint.first_page >= pages) return;
  const std::uint64_t count = std::min<std::uint64_t>(hint.pages, pages - hint.first_page);
  const auto offset = static_cast<std::int64_t>(hint.first_page * page_bytes);
  if (count > 1) calls.prefetch(handle, offset, count * page_bytes);
  for (std::uint64_t page = 0; page < count && !stopping_.load(); ++page) {
    device::cache::PinnedView held;
    const auto at = static_cast<std::int64_t>((hint.first_page + page) * page_bytes);
    if (calls.hold(handle, at, 1, held) < 0) return;
    calls.release(held);
  }
}

}  // namespace ferry::daemon
