#include "bulk/worker.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/caught_error.hpp"
#include "base/cpus.hpp"
#include "base/futex.hpp"
#include "bulk/files_job.hpp"
#include "bulk/gpu_direct.hpp"
#include "bulk/scheduler.hpp"

namespace ferry::bulk {
namespace {

constexpr unsigned flights_max = 64;
constexpr std::chrono::nanoseconds nap = std::chrono::seconds(1);
// The end of a GPU's copy rings no bell. A typical task takes 20 to 40 us over PCIe.
constexpr std::chrono::nanoseconds nap_while_gpus_copy = std::chrono::microseconds(50);
// A limit on page-locked memory, which the system cannot reclaim, for the workers that are expected
// in an engine, some of which only wait (scheduler.cpp). Others have as few slots as will do.
constexpr std::uint64_t pinned_bytes_max = 128 << 20;
constexpr unsigned workers_expected = 16;
// With fewer, storage and copy engine would wait for each other.
constexpr std::uint64_t slots_least = 2;
// Data is copied from a slot soon after the disk has written it: from the core's cache, if the
// slots fit there. Four slots of the usual size, with their edges.
constexpr std::uint64_t staging_bytes_wanted = (1 << 20) + (64 << 10);

std::uint64_t aligned_down(std::uint64_t value) {
  return value / piece_alignment_bytes * piece_alignment_bytes;
}
std::uint64_t aligned_up(std::uint64_t value) {
  return aligned_down(value + piece_alignment_bytes - 1);
}

}  // namespace

Worker::Worker(Scheduler& scheduler, std::size_t number)
    : scheduler_(scheduler),
      number_(number),
      lane_(std::make_unique<Lane>(scheduler.lanes()->storage(), scheduler.lanes()->slabs())) {
  flights_.reserve(flights_max);
  free_.reserve(flights_max);
  thread_ = std::thread([this] { run(); });
}

Worker::~Worker() {
  thread_.join();
}

void Worker::leave() {
  leaving_.store(true, std::memory_order_release);
  ring();
}

void Worker::run() {
  name_this_thread("ferry-bulk");
  for (;;) {
    const std::uint32_t seen = std::atomic_ref(bell_).load(std::memory_order_acquire);
    const bool started = start_work();
    const bool landed = land_flights();
    const bool copied = land_gpu_copies();
    if (started || landed || copied) continue;
    if (in_flight_ == 0 && current_ == nullptr && leaving_.load(std::memory_order_acquire)) break;
    cancel_flights();
    scheduler_.try_thread_again();
    const std::chrono::nanoseconds rest = gpus_copy() ? nap_while_gpus_copy : nap;
    if (queue_ != nullptr) {
      queue_->wait(seen, rest);
    } else {
      futex_wait(&bell_, seen, static_cast<std::uint64_t>(rest.count()));
    }
  }
  // The kernel binds the queue to the thread that made it.
  queue_.reset();
  staging_.reset();
  copy_engines_.clear();
  pinned_.reset();
}

bool Worker::start_work() {
  if (current_ == nullptr) {
    if (in_flight_ >= flights_max) return false;
    Claim claim;
    std::shared_ptr<FilesJob> job;
    if (!scheduler_.next(*this, in_flight_ > 0, claim, job)) return false;
    if (job != nullptr) {
      bool slow = false;
      const bool read = job->read_some(*lane_, slow);
      if (read && slow) scheduler_.wake_one();
      return true;
    }
    try {
      current_ = std::make_shared<Active>();
    } catch (const std::bad_alloc&) {
      refuse(claim);
      return true;
    }
    current_->claim = std::move(claim);
  }
  const std::size_t count = current_->claim.count;
  const std::uint64_t bytes = current_->claim.bytes;
  start_next_piece();
  return current_ == nullptr || current_->claim.count != count || current_->claim.bytes != bytes;
}

// Without memory.
void Worker::refuse(Claim& claim) {
  BulkRequest& request = *claim.request;
  while (claim.count > 0) {
    const RoutedPiece piece = request.next_piece(claim);
    request.record(claim.first, claim.begin, piece.bytes, -ENOMEM);
    request.advance(claim, piece.bytes);
  }
  request.end_claim();
}

// One that cannot begin fails.
void Worker::start_next_piece() {
  Claim& claim = current_->claim;
  BulkRequest& request = *claim.request;
  RoutedPiece piece = request.next_piece(claim);
  try {
    if (!try_piece(piece)) return;
  } catch (...) {  // before it was recorded or in flight
    request.record(claim.first, claim.begin, piece.bytes, -caught_error());
  }
  current_->slots_only = false;
  request.advance(claim, piece.bytes);
  if (claim.count == 0) finish_current();
}

bool Worker::try_piece(RoutedPiece& piece) {
  const Claim& claim = current_->claim;
  BulkRequest& request = *claim.request;
  if (request.cancelled()) {
    request.record(claim.first, claim.begin, piece.bytes, -ECANCELED);
  } else {
    DataPath way = choose_way(piece, scheduler_.options().route);
    if (const std::uint64_t most = piece_bytes_max(piece, way); piece.bytes > most) {
      piece = request.next_piece(claim, most);
      way = choose_way(piece, scheduler_.options().route);
    }
    if (way == DataPath::copy && piece.gpu == nullptr) {
      scheduler_.copy_now(*lane_, request, claim.first, claim.begin, piece.bytes);
    } else {
      const bool past_cache = way == DataPath::direct || way == DataPath::staged;
      if (!past_cache || piece.gpu == nullptr || current_->slots_only ||
          !move_past_host(scheduler_, request, claim.first, claim.begin, piece)) {
        current_->slots_only = true;
        return take_off(claim.first, claim.begin, piece, way);
      }
    }
  }
  return true;
}

// Tasks that are no copies may exceed (plan.hpp) a slot and what keeps a disk busy.
std::uint64_t Worker::piece_bytes_max(const RoutedPiece& piece, DataPath way) const {
  const std::uint64_t task_bytes = scheduler_.options().task_bytes;
  if (piece.gpu != nullptr) return std::max(task_bytes, gpu_task_bytes);
  if (way == DataPath::copy || !piece.file->local())
    return std::numeric_limits<std::uint64_t>::max();
  return task_bytes;
}

void Worker::finish_current() {
  const std::shared_ptr<Active> active = std::move(current_);
  active->all_started = true;
  if (active->in_flight == 0) active->claim.request->end_claim();
}

void Worker::make_queue() {
  const EngineOptions& options = scheduler_.options();
  // One slot holds a task, or a small part, and the blocks at its edges.
  const std::uint64_t slot_bytes =
      std::max(options.task_bytes, small_part_bytes) + 2 * piece_alignment_bytes;
  const std::uint64_t slots_in_cache =
      std::max<std::uint64_t>(staging_bytes_wanted / slot_bytes, 2);
  const bool pinned = scheduler_.wish().depth != 0;
  auto staging = std::make_unique<Staging>(
      pinned ? options.depth : std::min(options.depth, static_cast<unsigned>(slots_in_cache)),
      slot_bytes);
  queue_ = scheduler_.lanes()->storage().make_queue(
      {.doorbell = {&bell_}, .arena = staging->memory(), .depth = flights_max});
  staging_ = std::move(staging);
  scheduler_.counters().add(&EngineStatistics::staging_bytes, staging_->memory().size());
}

bool Worker::take_off(std::size_t part, std::uint64_t begin, const RoutedPiece& piece,
                      DataPath way) {
  if (queue_ == nullptr && way != DataPath::copy) make_queue();
  const bool large = way == DataPath::direct || way == DataPath::staged;
  storage::File* through = large ? piece.file->direct() : &piece.file->buffered();
  if (through == nullptr) return take_off(part, begin, piece, DataPath::cached);  // refused since
  // The slots limit transfers to a GPU.
  const bool few = large && piece.gpu == nullptr;
  if (in_flight_ >= (few ? scheduler_.options().depth : flights_max)) return false;
  if (free_.empty()) {
    flights_.push_back(std::make_unique<Flight>());
    free_.push_back(flights_.back().get());
  }
  Flight& flight = *free_.back();
  flight.piece = piece;
  flight.through = through;
  flight.part = part;
  flight.begin = begin;
  flight.way = way;
  if (!take_slot(flight)) return false;
  // Nothing is thrown from here on.
  free_.pop_back();
  flight.active = current_;
  ++current_->in_flight;
  piece.file->note_engine_use();
  flight.head_bytes = way == DataPath::staged ? piece.offset - aligned_down(piece.offset) : 0;
  flight.moved_bytes = 0;
  flight.outcome = 0;
  flight.in_storage = false;
  flight.cancel_sent = false;
  ++in_flight_;
  if (piece.gpu != nullptr && piece.direction == Direction::write) {
    start_gpu_copy(flight, piece.bytes);
    return true;
  }
  if (flight.slot != nullptr && piece.direction == Direction::write)
    std::memcpy(flight.slot, piece.data, piece.bytes);
  go_to_storage(flight);
  return true;
}

// Returns false if all are taken. Throws where no memory can be page-locked.
bool Worker::take_slot(Flight& flight) {
  const RoutedPiece& piece = flight.piece;
  flight.slot = nullptr;
  if (piece.gpu == nullptr) {
    if (flight.way != DataPath::staged) return true;
    flight.slot = staging_->take();
    return flight.slot != nullptr;
  }
  if (pinned_ == nullptr) {
    const EngineOptions& options = scheduler_.options();
    const std::uint64_t slot_bytes =
        std::max(options.task_bytes, gpu_task_bytes) + 2 * piece_alignment_bytes;
    const unsigned sharers = std::max(options.workers, workers_expected);
    const std::uint64_t share = number_ < sharers ? pinned_bytes_max / sharers / slot_bytes : 0;
    const std::uint64_t slots = std::max(share, slots_least);
    pinned_ = std::make_unique<cuda::PinnedSlots>(piece.gpu->shared_from_this(),
                                                  static_cast<unsigned>(slots), slot_bytes);
    scheduler_.counters().add(&EngineStatistics::pinned_bytes, pinned_->memory().size());
  }
  copy_engines_.try_emplace(piece.gpu, piece.gpu->shared_from_this());
  flight.slot = pinned_->take();
  return flight.slot != nullptr;
}

void Worker::give_back_slot(Flight& flight) {
  std::byte* slot = std::exchange(flight.slot, nullptr);
  if (slot == nullptr) return;
  if (flight.piece.gpu != nullptr) {
    pinned_->give_back(slot);
  } else {
    staging_->give_back(slot);
  }
}

void Worker::go_to_storage(Flight& flight) {
  SchedulerCounters& counters = scheduler_.counters();
  counters.add(flight.way == DataPath::copy     ? &EngineStatistics::copied_tasks
               : flight.way == DataPath::cached ? &EngineStatistics::cached_tasks
               : flight.way == DataPath::direct ? &EngineStatistics::direct_tasks
                                                : &EngineStatistics::staged_tasks);
  if (flight.way != DataPath::copy) {
    flight.in_storage = true;
    submit(flight);
    return;
  }
  // Between the page cache and a GPU's slot, on this thread.
  const RoutedPiece& piece = flight.piece;
  const std::int64_t result =
      lane_->transfer(*flight.through, piece.direction, flight.slot, piece.bytes, piece.offset);
  if (result < 0) {
    end_flight(flight, result);
    return;
  }
  flight.moved_bytes = static_cast<std::uint64_t>(result);
  leave_storage(flight);
}

void Worker::submit(Flight& flight) {
  const RoutedPiece& piece = flight.piece;
  std::byte* data = piece.data;
  std::uint64_t bytes = piece.bytes;
  std::uint64_t offset = piece.offset;
  if (flight.slot != nullptr) {
    data = flight.slot;
    offset -= flight.head_bytes;
    if (flight.way == DataPath::staged && piece.direction == Direction::read)
      bytes = aligned_up(flight.head_bytes + bytes);
  }
  flight.target = iovec{data + flight.moved_bytes, bytes - flight.moved_bytes};
  flight.kind = storage::kind_of(piece.direction);
  flight.file = flight.through;
  flight.offset = static_cast<std::int64_t>(offset + flight.moved_bytes);
  flight.vectors = {&flight.target, 1};
  queue_->submit(flight);
}

bool Worker::land_flights() {
  if (queue_ == nullptr) return false;
  queue_->flush();
  bool any = false;
  while (storage::Operation* operation = queue_->reap()) {
    any = true;
    land(*static_cast<Flight*>(operation));
  }
  return any;
}

// Whether the rest of the flight was submitted again.
bool Worker::goes_on(Flight& flight, std::int64_t result) {
  const bool direct = flight.way == DataPath::direct || flight.way == DataPath::staged;
  if (result == -EINVAL && direct && !flight.piece.file->always_direct()) {
    // The file system supports direct I/O, but refuses this one.
    flight.piece.file->give_up_direct();
    if (flight.piece.gpu == nullptr) give_back_slot(flight);
    flight.head_bytes = flight.moved_bytes = 0;
    flight.way = DataPath::cached;
    flight.through = &flight.piece.file->buffered();
    submit(flight);
    return true;
  }
  if (result <= 0) return false;
  flight.moved_bytes += static_cast<std::uint64_t>(result);
  if (flight.moved_bytes >= flight.head_bytes + flight.piece.bytes) return false;
  if (flight.active->claim.request->cancelled()) return false;
  submit(flight);  // short: only another transfer tells the end of the file from an error
  return true;
}

void Worker::land(Flight& flight) {
  const std::int64_t result = flight.result;
  if (goes_on(flight, result)) return;
  flight.in_storage = false;
  if (result < 0) {
    end_flight(flight, result);
  } else {
    leave_storage(flight);
  }
}

// The storage has finished.
void Worker::leave_storage(Flight& flight) {
  const RoutedPiece& piece = flight.piece;
  const std::uint64_t behind_head =
      flight.moved_bytes > flight.head_bytes ? flight.moved_bytes - flight.head_bytes : 0;
  const std::uint64_t moved = std::min(behind_head, piece.bytes);
  const bool cancelled = flight.active->claim.request->cancelled();
  if (moved < piece.bytes && (cancelled || piece.direction == Direction::write)) {
    end_flight(flight, cancelled ? -ECANCELED : -EIO);
    return;
  }
  SchedulerCounters& counters = scheduler_.counters();
  counters.add_bytes(piece.direction, moved);
  flight.outcome = static_cast<std::int64_t>(moved);
  if (flight.slot != nullptr && piece.direction == Direction::read && moved > 0) {
    if (piece.gpu != nullptr) {
      start_gpu_copy(flight, moved);
      return;
    }
    std::memcpy(piece.data, flight.slot + flight.head_bytes, moved);
  }
  end_flight(flight, flight.outcome);
}

// From the slot after a read, into it before a write.
void Worker::start_gpu_copy(Flight& flight, std::uint64_t bytes) noexcept {
  const RoutedPiece& piece = flight.piece;
  scheduler_.counters().add(&EngineStatistics::gpu_tasks);
  flight.copy = {piece.direction,
                 flight.slot + flight.head_bytes,
                 reinterpret_cast<std::uintptr_t>(piece.data),
                 bytes,
                 0,
                 &flight};
  cuda::CopyEngine& engine = copy_engines_.at(piece.gpu);
  engine.start(flight.copy);
  engine.flush();
}

bool Worker::gpus_copy() const {
  return std::any_of(copy_engines_.begin(), copy_engines_.end(),
                     [](const auto& one) { return one.second.in_flight() > 0; });
}

bool Worker::land_gpu_copies() {
  bool any = false;
  for (auto& [gpu, engine] : copy_engines_) {
    while (const cuda::Copy* copy = engine.reap()) {
      any = true;
      Flight& flight = *static_cast<Flight*>(copy->owner);
      if (copy->result != 0) {
        end_flight(flight, copy->result);
      } else if (flight.piece.direction == Direction::read) {
        end_flight(flight, flight.outcome);
      } else if (flight.active->claim.request->cancelled()) {
        end_flight(flight, -ECANCELED);
      } else {
        go_to_storage(flight);
      }
    }
  }
  return any;
}

void Worker::end_flight(Flight& flight, std::int64_t result) {
  give_back_slot(flight);
  const std::shared_ptr<Active> active = std::move(flight.active);
  BulkRequest& request = *active->claim.request;
  request.record(flight.part, flight.begin, flight.piece.bytes, result);
  --in_flight_;
  free_.push_back(&flight);
  if (--active->in_flight == 0 && active->all_started) request.end_claim();
}

void Worker::cancel_flights() {
  if (in_flight_ == 0) return;
  for (const std::unique_ptr<Flight>& flight : flights_) {
    if (flight->active == nullptr || !flight->in_storage || flight->cancel_sent) continue;
    if (!flight->active->claim.request->cancelled()) continue;
    flight->cancel_sent = true;
    queue_->cancel(*flight);
  }
}

}  // namespace ferry::bulk
