#include "backend/cuda/stream_copies.hpp"

#include <utility>

namespace ferry::cuda {

CopyStreams::CopyStreams(const std::shared_ptr<const PrimaryContext>& context)
    : to_device(context), from_device(context) {
  for (std::size_t i = 0; i < events_max; ++i)
    events.push_back(std::make_unique<Event>(context));
}

StreamCopies::StreamCopies(const std::shared_ptr<const PrimaryContext>& context)
    : StreamCopies(context, std::make_shared<CopyStreams>(context)) {}

StreamCopies::StreamCopies(std::shared_ptr<const PrimaryContext> context,
                           std::shared_ptr<CopyStreams> streams)
    : context_(std::move(context)),
      current_(*context_),
      streams_(std::move(streams)),
      ways_{Way{streams_->to_device.handle(), {}, {}, false},
            Way{streams_->from_device.handle(), {}, {}, false}} {}

// Afterwards nothing may touch the copies' memory, whatever their outcome.
StreamCopies::~StreamCopies() {
  for (Way& way : ways_) {
    context_->driver().cuStreamSynchronize(way.stream);
    for (Batch& batch : way.batches)
      streams_->events.push_back(std::move(batch.event));
  }
}

void StreamCopies::start(Copy& copy) {
  const bool to_device = copy.direction == Direction::read;
  Way& way = ways_[to_device ? 0 : 1];
  const Driver& driver = context_->driver();
  const Result result =
      to_device ? driver.cuMemcpyHtoDAsync(copy.device_address, copy.host, copy.bytes, way.stream)
                : driver.cuMemcpyDtoHAsync(copy.host, copy.device_address, copy.bytes, way.stream);
  copy.result = result == Result::success ? 0 : -error_number(result);
  way.started.push_back(&copy);  // a failed one ends in its turn
}

void StreamCopies::flush() {
  for (Way& way : ways_)
    flush(way);
}

void StreamCopies::flush(Way& way) {
  if (way.started.empty()) return;
  way.wants_event = streams_->events.empty();
  if (way.wants_event) return;  // until a batch has ended
  Batch batch;
  batch.event = std::move(streams_->events.back());
  streams_->events.pop_back();
  std::swap(batch.copies, way.started);
  const Result result = context_->driver().cuEventRecord(batch.event->handle(), way.stream);
  if (result != Result::success) {
    // Their progress is unknown, so wait.
    context_->driver().cuStreamSynchronize(way.stream);
    for (Copy* copy : batch.copies)
      copy->result = -error_number(result);
  }
  way.batches.push_back(std::move(batch));
}

Copy* StreamCopies::reap() {
  if (ended_.empty()) {
    for (Way& way : ways_) {
      while (!way.batches.empty() && collect(way)) {
      }
    }
  }
  if (ended_.empty()) return nullptr;
  Copy* copy = ended_.front();
  ended_.pop_front();
  return copy;
}

// Whether the oldest batch has ended.
bool StreamCopies::collect(Way& way) {
  Batch& batch = way.batches.front();
  const Result result = batch.event->query();
  if (result == Result::not_ready) return false;
  if (result != Result::success) {
    // The process has lost the GPU, but until the driver reports that for the stream, a copy engine
    // may still access the memory of these copies.
    context_->driver().cuStreamSynchronize(way.stream);
  }
  for (Copy* copy : batch.copies) {
    if (result != Result::success && copy->result == 0) copy->result = -error_number(result);
    ended_.push_back(copy);
  }
  streams_->events.push_back(std::move(batch.event));
  way.batches.pop_front();
  for (Way& other : ways_) {
    if (other.wants_event) flush(other);
  }
  return true;
}

}  // namespace ferry::cuda
