#include "backend/cuda/copy_engine.hpp"

#include <cerrno>
#include <utility>

#include <sys/mman.h>

namespace ferry::cuda {
namespace {

int result_of(Result result) {
  const int error = error_number(result);
  return error == 0 || error == ENOMEM || error == ENODEV ? -error : -EIO;
}

Result start_copy(const Driver& driver, StreamHandle stream, Direction direction, void* host,
                  DevicePointer device, std::size_t bytes) {
  return direction == Direction::read ? driver.cuMemcpyHtoDAsync(device, host, bytes, stream)
                                      : driver.cuMemcpyDtoHAsync(host, device, bytes, stream);
}

}  // namespace

void CopyList::push(Copy& copy) {
  copy.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &copy;
  last_ = &copy;
}

Copy* CopyList::pop() {
  Copy* copy = first_;
  if (copy != nullptr) first_ = copy->next;
  if (first_ == nullptr) last_ = nullptr;
  return copy;
}

PinnedSlots::PinnedSlots(std::shared_ptr<const PrimaryContext> context, unsigned slots,
                         std::uint64_t slot_bytes)
    : Staging(slots, slot_bytes),
      registration_(std::move(context), memory().data(), memory().size()) {
  madvise(memory().data(), memory().size(), MADV_DONTFORK);
}

CopyStreams::CopyStreams(const std::shared_ptr<const PrimaryContext>& context)
    : to_device(context), from_device(context) {
  for (std::size_t i = 0; i < events_max; ++i)
    events.push_back(std::make_unique<Event>(context));
}

CopyEngine::CopyEngine(const std::shared_ptr<const PrimaryContext>& context)
    : CopyEngine(context, std::make_shared<CopyStreams>(context)) {}

CopyEngine::CopyEngine(std::shared_ptr<const PrimaryContext> context,
                       std::shared_ptr<CopyStreams> streams)
    : context_(std::move(context)),
      current_(*context_),
      streams_(std::move(streams)),
      ways_{Way(streams_->to_device.handle()), Way(streams_->from_device.handle())} {}

// Afterwards nothing may touch the copies' memory, whatever their outcome.
CopyEngine::~CopyEngine() {
  for (Way& way : ways_) {
    context_->driver().cuStreamSynchronize(way.stream);
    for (Batch& batch : way.batches)
      streams_->events.push_back(std::move(batch.event));
  }
}

// Another GPU's engine on this thread may have made its context the current one.
Result CopyEngine::enter() const {
  ContextHandle current = nullptr;
  const Driver& driver = context_->driver();
  const Result result = driver.cuCtxGetCurrent(&current);
  if (result != Result::success || current == context_->handle()) return result;
  return driver.cuCtxSetCurrent(context_->handle());
}

void CopyEngine::start(Copy& copy) {
  Way& way = ways_[static_cast<std::size_t>(copy.direction)];
  Result result = enter();
  if (result == Result::success) {
    result = start_copy(context_->driver(), way.stream, copy.direction, copy.host,
                        copy.device_address, copy.bytes);
  }
  copy.result = result_of(result);
  way.started.push(copy);  // a failed one ends in its turn
  ++in_flight_;
}

void CopyEngine::flush() {
  for (Way& way : ways_)
    flush(way);
}

void CopyEngine::flush(Way& way) {
  if (way.started.empty()) return;
  way.wants_event = streams_->events.empty();
  if (way.wants_event) return;  // until a batch has ended
  Batch batch;
  batch.event = std::move(streams_->events.back());
  streams_->events.pop_back();
  const Result result = context_->driver().cuEventRecord(batch.event->handle(), way.stream);
  // Their progress is unknown, so wait.
  if (result != Result::success) context_->driver().cuStreamSynchronize(way.stream);
  while (Copy* copy = way.started.pop()) {
    if (result != Result::success) copy->result = result_of(result);
    batch.copies.push(*copy);
  }
  way.batches.push_back(std::move(batch));
}

Copy* CopyEngine::reap() {
  if (ended_.empty()) {
    for (Way& way : ways_) {
      while (!way.batches.empty() && collect(way)) {
      }
    }
  }
  Copy* copy = ended_.pop();
  if (copy != nullptr) --in_flight_;
  return copy;
}

// Whether the oldest batch has ended.
bool CopyEngine::collect(Way& way) {
  Batch& batch = way.batches.front();
  const Result result = context_->driver().cuEventQuery(batch.event->handle());
  if (result == Result::not_ready) return false;
  if (result != Result::success) {
    // The process has lost the GPU, but until the driver reports that for the stream, a copy engine
    // may still access the memory of these copies.
    context_->driver().cuStreamSynchronize(way.stream);
  }
  while (Copy* copy = batch.copies.pop()) {
    if (copy->result == 0) copy->result = result_of(result);
    ended_.push(*copy);
  }
  streams_->events.push_back(std::move(batch.event));
  way.batches.erase(way.batches.begin());
  for (Way& other : ways_) {
    if (other.wants_event) flush(other);
  }
  return true;
}

void copy_now(const PrimaryContext& context, Direction direction, void* host, DevicePointer device,
              std::size_t bytes) {
  const CurrentContext current(context);
  const Driver& driver = context.driver();
  if (direction == Direction::read) {
    driver.check(driver.cuMemcpyHtoD(device, host, bytes), "cuMemcpyHtoD");
  } else {
    driver.check(driver.cuMemcpyDtoH(host, device, bytes), "cuMemcpyDtoH");
  }
}

void copy_now(const Driver& driver, const GpuStream& stream, Direction direction, void* host,
              DevicePointer device, std::size_t bytes) {
  driver.check(start_copy(driver, stream.handle(), direction, host, device, bytes),
               direction == Direction::read ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync");
  driver.check(driver.cuStreamSynchronize(stream.handle()), "cuStreamSynchronize");
}

}  // namespace ferry::cuda
