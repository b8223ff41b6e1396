#include "backend/cuda/staged_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/copy_engine.hpp"

namespace ferry::cuda {
namespace {

using storage::Kind;
using storage::Operation;

// A transfer's position in its list of pieces.
struct Cursor {
  std::size_t piece = 0;
  std::size_t offset = 0;  // within that piece

  // Calls use(address, bytes) for each stretch of the next `bytes` bytes, and advances.
  template <class Use>
  void advance(std::span<const iovec> pieces, std::size_t bytes, Use use) {
    while (bytes > 0) {
      const iovec& one = pieces[piece];
      const std::size_t step = std::min(bytes, one.iov_len - offset);
      if (step > 0) use(static_cast<std::byte*>(one.iov_base) + offset, step);
      bytes -= step;
      offset += step;
      if (offset == one.iov_len) {
        ++piece;
        offset = 0;
      }
    }
  }
};

// A transfer in flight on device memory.
struct Transfer {
  Operation* whole = nullptr;
  std::uint64_t total = 0;  // bytes
  std::uint64_t next = 0;   // first byte not yet in a part
  Cursor cursor;            // its position
  std::uint64_t end = 0;    // nothing from here on counts
  std::int64_t error = 0;   // the reason, if nothing before it was moved
  unsigned parts = 0;       // in flight
  bool cancelled = false;

  bool takes_turns() const { return whole->kind == Kind::append; }
  bool wants_part() const { return next < end && !cancelled && !(takes_turns() && parts > 0); }
  bool over() const { return parts == 0 && !wants_part(); }
  void ends_at(std::uint64_t at, std::int64_t reason) {
    if (at >= end) return;
    end = at;
    error = reason;
  }
};

// A part of a transfer with its slab, and the operation for the underlying storage.
struct Part final : Operation {
  std::byte* slab = nullptr;
  std::size_t slab_bytes = 0;
  Transfer* transfer = nullptr;  // null: free
  std::uint64_t at = 0;          // in the transfer
  std::size_t bytes = 0;
  Cursor cursor;
  iovec one{};
  std::deque<Copy> copies;  // deque: the engine keeps their addresses
  unsigned copies_left = 0;
  int copy_error = 0;
  bool in_storage = false;
};

// What a queue needs of the GPU.
struct QueueResources {
  QueueResources(const std::shared_ptr<const PrimaryContext>& context, std::size_t bytes)
      : slabs(context, bytes), streams(context) {}

  const PinnedMemory slabs;
  CopyStreams streams;
};

class StagedQueue final : public storage::Queue {
 public:
  StagedQueue(storage::Storage& storage, const std::shared_ptr<const PrimaryContext>& context,
              const DeviceMemory& memory, const StagingOptions& options,
              std::shared_ptr<QueueResources> resources, storage::QueueOptions queue)
      : memory_(memory),
        options_(options),
        resources_(std::move(resources)),
        parts_(options.small_slabs + options.large_slabs),
        engine_(context, std::shared_ptr<CopyStreams>(resources_, &resources_->streams)),
        nap_(options.nap_first) {
    std::byte* next = resources_->slabs.data();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      part.slab = next;
      part.slab_bytes = i < options.small_slabs ? options.small_bytes : options.large_bytes;
      next += part.slab_bytes;
      free_list(part).push_back(&part);
    }
    // The storage itself only transfers from and to these slabs.
    queue.arena = {resources_->slabs.data(), options.bytes()};
    queue.depth += static_cast<unsigned>(parts_.size());
    inner_ = storage.make_queue(queue);
  }

  void submit(Operation& operation) override {
    nap_ = options_.nap_first;
    if (!is_staged(operation)) return inner_->submit(operation);
    Transfer& transfer = transfers_.emplace_back();
    transfer.whole = &operation;
    for (const iovec& one : operation.vectors)
      transfer.total += one.iov_len;
    transfer.end = transfer.total;
    operation.value = 0;
  }

  void flush() override {
    start_parts();
    engine_.flush();
    inner_->flush();
    collect();
  }

  Operation* reap() override {
    if (finished_.empty()) collect();
    if (finished_.empty()) return nullptr;
    Operation* operation = finished_.front();
    finished_.pop_front();
    return operation;
  }

  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
    collect();
    if (!finished_.empty()) return;
    if (engine_.in_flight() > 0) return inner_->wait(seen, std::min(timeout, options_.copy_nap));
    inner_->wait(seen, std::min(timeout, nap_));
    nap_ = std::min(2 * nap_, options_.nap_max);
  }

  void cancel(Operation& operation) override {
    const auto found =
        std::find_if(transfers_.begin(), transfers_.end(),
                     [&](const Transfer& transfer) { return transfer.whole == &operation; });
    if (found == transfers_.end()) return inner_->cancel(operation);
    found->cancelled = true;
    for (Part& part : parts_) {
      if (part.transfer == &*found && part.in_storage) inner_->cancel(part);
    }
    end_if_over(*found);
  }

  storage::QueueStatistics statistics() const override { return inner_->statistics(); }

 private:
  bool is_device(const void* address) const {
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    return number >= memory_.pointer() && number < memory_.pointer() + memory_.bytes();
  }
  bool is_staged(const Operation& operation) const {
    const bool moves = operation.kind == Kind::read || operation.kind == Kind::write ||
                       operation.kind == Kind::append;
    return moves &&
           std::any_of(operation.vectors.begin(), operation.vectors.end(), [&](const iovec& one) {
             return one.iov_len > 0 && is_device(one.iov_base);
           });
  }

  std::vector<Part*>& free_list(const Part& part) {
    return part.slab_bytes == options_.small_bytes ? free_small_ : free_large_;
  }
  // Null: no suitable slab is free. A large one also serves small parts.
  Part* take_part(std::uint64_t bytes) {
    std::vector<Part*>& list =
        bytes <= options_.small_bytes && !free_small_.empty() ? free_small_ : free_large_;
    if (list.empty()) return nullptr;
    Part* part = list.back();
    list.pop_back();
    return part;
  }

  // Small transfers overtake a large one that finds no slab.
  void start_parts() {
    for (auto it = transfers_.begin(); it != transfers_.end();) {
      Transfer& transfer = *it++;  // ending it removes it from the list
      while (transfer.wants_part()) {
        Part* part = take_part(transfer.end - transfer.next);
        if (part == nullptr) break;
        if (!start_part(transfer, *part)) break;
      }
    }
  }

  // Returns false if the transfer has ended.
  bool start_part(Transfer& transfer, Part& part) {
    part.transfer = &transfer;
    part.at = transfer.next;
    part.bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>(part.slab_bytes, transfer.end - transfer.next));
    part.cursor = transfer.cursor;
    part.copy_error = 0;
    transfer.next += part.bytes;
    ++transfer.parts;
    const Operation& whole = *transfer.whole;
    part.kind = whole.kind;
    part.file = whole.file;
    part.offset = whole.offset + static_cast<std::int64_t>(part.at);
    part.sync_follows = whole.sync_follows;
    part.one = iovec{part.slab, part.bytes};
    part.vectors = {&part.one, 1};
    part.result = 0;
    part.value = 0;
    if (whole.kind == Kind::read) {
      transfer.cursor.advance(whole.vectors, part.bytes, [](std::byte*, std::size_t) {});
      give_to_storage(part);
      return true;
    }
    return carry(part, part.bytes, Direction::write, transfer.cursor);
  }

  void give_to_storage(Part& part) {
    part.in_storage = true;
    inner_->submit(part);
  }

  // Moves the first `bytes` bytes of the part between its slab and their destination. Returns false
  // if that ended the transfer.
  bool carry(Part& part, std::size_t bytes, Direction direction, Cursor& cursor) {
    std::byte* slab = part.slab;
    part.copies.clear();
    part.copies_left = 1;  // counts this function, so that only the last copy ends the part
    cursor.advance(part.transfer->whole->vectors, bytes, [&](std::byte* memory, std::size_t step) {
      if (is_device(memory)) {
        ++part.copies_left;
        engine_.start(part.copies.emplace_back(
            Copy{direction, slab, reinterpret_cast<std::uintptr_t>(memory), step, 0, &part}));
      } else if (direction == Direction::read) {
        std::memcpy(memory, slab, step);
      } else {
        std::memcpy(slab, memory, step);
      }
      slab += step;
    });
    return copied(part);
  }
  // One copy fewer to wait for. Returns false if that ended the transfer.
  bool copied(Part& part) {
    if (--part.copies_left > 0) return true;
    if (part.copy_error != 0) return end_part(part, part.copy_error);
    if (part.kind == Kind::read) return end_part(part, part.result);
    give_to_storage(part);
    return true;
  }

  void collect() {
    bool more = true;
    while (more) {
      more = false;
      while (Operation* operation = inner_->reap()) {
        more = true;
        auto* part = part_of(operation);
        if (part == nullptr) {
          finished_.push_back(operation);
        } else {
          part->in_storage = false;
          stored(*part);
        }
      }
      engine_.flush();
      while (const Copy* copy = engine_.reap()) {
        more = true;
        Part& part = *static_cast<Part*>(copy->owner);
        if (copy->result != 0) part.copy_error = copy->result;
        copied(part);
      }
      if (!more) break;
      start_parts();
      engine_.flush();
      inner_->flush();
    }
  }

  Part* part_of(Operation* operation) {
    const auto begin = reinterpret_cast<std::uintptr_t>(parts_.data());
    const auto address = reinterpret_cast<std::uintptr_t>(static_cast<void*>(operation));
    const bool mine = address >= begin && address < begin + parts_.size() * sizeof(Part);
    return mine ? static_cast<Part*>(operation) : nullptr;
  }

  // The storage has finished the part.
  void stored(Part& part) {
    const bool reading = part.kind == Kind::read;
    if (!reading || part.result <= 0) {
      end_part(part, part.result);
      return;
    }
    carry(part, static_cast<std::size_t>(part.result), Direction::read, part.cursor);
  }

  // Returns false if that was its transfer's last one.
  bool end_part(Part& part, std::int64_t result) {
    Transfer& transfer = *part.transfer;
    const std::uint64_t moved = result > 0 ? static_cast<std::uint64_t>(result) : 0;
    if (moved < part.bytes) transfer.ends_at(part.at + moved, std::min<std::int64_t>(result, 0));
    if (transfer.takes_turns() && moved > 0) transfer.whole->value = part.value;
    part.transfer = nullptr;
    free_list(part).push_back(&part);
    --transfer.parts;
    return !end_if_over(transfer);
  }

  bool end_if_over(Transfer& transfer) {
    if (!transfer.over()) return false;
    if (transfer.cancelled) transfer.ends_at(transfer.next, -ECANCELED);
    Operation* whole = transfer.whole;
    whole->result = transfer.end > 0 ? static_cast<std::int64_t>(transfer.end) : transfer.error;
    transfers_.remove_if([&](const Transfer& one) { return &one == &transfer; });
    finished_.push_back(whole);
    return true;
  }

  const DeviceMemory& memory_;
  const StagingOptions options_;
  const std::shared_ptr<QueueResources> resources_;
  std::vector<Part> parts_;  // one per slab, in order
  std::vector<Part*> free_small_;
  std::vector<Part*> free_large_;
  std::list<Transfer> transfers_;  // in order of arrival
  std::deque<Operation*> finished_;
  // Its destructor waits for its copies, after the storage has released the slabs.
  CopyEngine engine_;
  std::unique_ptr<storage::Queue> inner_;
  std::chrono::nanoseconds nap_;
};

class StagedStorage final : public storage::Storage {
 public:
  StagedStorage(storage::Storage& storage, std::shared_ptr<const PrimaryContext> context,
                const DeviceMemory& memory, const StagingOptions& options, unsigned queues)
      : storage_(storage), context_(std::move(context)), memory_(memory), options_(options) {
    for (unsigned i = 0; i < queues; ++i)
      idle_.push_back(std::make_unique<QueueResources>(context_, options.bytes()));
  }

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<StagedQueue>(storage_, context_, memory_, options_, lend(), options);
  }
  storage::Description describe() const override { return storage_.describe(); }
  storage::Description describe_path(const std::string& path) override {
    return storage_.describe_path(path);
  }

 private:
  // Throws ferry::Error (EBUSY: all are lent).
  std::shared_ptr<QueueResources> lend() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) throw Error(EBUSY, "every queue of the GPU's storage is in use");
    QueueResources* lent = idle_.back().release();
    idle_.pop_back();
    return {lent, [this](QueueResources* back) {
              const std::lock_guard returned(mutex_);
              idle_.emplace_back(back);
            }};
  }

  storage::Storage& storage_;
  const std::shared_ptr<const PrimaryContext> context_;
  const DeviceMemory& memory_;
  const StagingOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<QueueResources>> idle_;  // guarded by the mutex
};

}  // namespace

std::unique_ptr<storage::Storage> make_staged_storage(
    storage::Storage& storage, const std::shared_ptr<const PrimaryContext>& context,
    const DeviceMemory& memory, const StagingOptions& options, unsigned queues) {
  return std::make_unique<StagedStorage>(storage, context, memory, options, queues);
}

}  // namespace ferry::cuda
