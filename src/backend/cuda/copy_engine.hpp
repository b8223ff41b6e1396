// Copies between host memory and GPU memory that the host cannot address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/resources.hpp"
#include "base/direction.hpp"
#include "base/staging.hpp"

namespace ferry::cuda {

// Page-locked slots for copies. Their memory is our own instead of cuMemHostAlloc's: huge pages,
// and a normal mapping for direct I/O. Children of fork() do not have it.
class PinnedSlots : public Staging {
 public:
  // Throws std::system_error (ENOMEM, and other errors of the driver).
  PinnedSlots(std::shared_ptr<const PrimaryContext> context, unsigned slots,
              std::uint64_t slot_bytes);

 private:
  const Registration registration_;
};

struct Copy {
  Direction direction = Direction::read;  // to the device, where a file is read into it
  std::byte* host = nullptr;              // pinned
  DevicePointer device_address = 0;
  std::size_t bytes = 0;
  int result = 0;         // once reaped: 0, -ENOMEM, -ENODEV or -EIO, whatever the driver reports
  void* owner = nullptr;  // for the caller
  Copy* next = nullptr;   // for the engine
};

// A first-in first-out list through Copy::next: an engine that is made needs no memory.
class CopyList {
 public:
  bool empty() const { return first_ == nullptr; }
  void push(Copy& copy);
  Copy* pop();

 private:
  Copy* first_ = nullptr;
  Copy* last_ = nullptr;
};

// The driver's resources for copies: a stream per direction, so that both copy engines of a GPU
// work at the same time. Allocate them before any kernel that may wait for the copies: later
// allocations may wait until every kernel has ended.
struct CopyStreams {
  // Maximum batches of copies in flight; beyond it, copies share the next event.
  static constexpr std::size_t events_max = 32;

  // Throws ferry::Error.
  explicit CopyStreams(const std::shared_ptr<const PrimaryContext>& context);

  GpuStream to_device;
  GpuStream from_device;
  std::vector<std::unique_ptr<Event>> events;
};

// One thread's access to a GPU's copy engines. Make, use and destroy it on that thread, whose
// current context it sets: switching for every call would cost as much as a copy. Its streams are
// independent of the program's, so copies run beside kernels. All copies between two flushes share
// one event. A copy and its memory belong to the engine between start() and reap().
class CopyEngine {
 public:
  // With its own streams. Throws ferry::Error.
  explicit CopyEngine(const std::shared_ptr<const PrimaryContext>& context);
  // With exclusively lent ones, which are clean again when this is destroyed.
  CopyEngine(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<CopyStreams> streams);
  // Ends the copies.
  ~CopyEngine();
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  // Accepts a copy, which starts at flush() at the latest. Never waits for another copy. These
  // three need no memory.
  void start(Copy& copy);
  void flush();
  // A finished copy, or null. Copies of one direction finish in the order of their starts.
  Copy* reap();
  // Copies started and not reaped.
  std::size_t in_flight() const { return in_flight_; }

 private:
  struct Batch {
    std::unique_ptr<Event> event;
    CopyList copies;
  };
  struct Way {
    explicit Way(StreamHandle of_stream) : stream(of_stream) {
      batches.reserve(CopyStreams::events_max);
    }
    StreamHandle stream;
    CopyList started;            // since the last flush
    std::vector<Batch> batches;  // the oldest first
    bool wants_event = false;    // a flush found none
  };

  Result enter() const;
  void flush(Way& way);
  bool collect(Way& way);

  const std::shared_ptr<const PrimaryContext> context_;
  const CurrentContext current_;
  const std::shared_ptr<CopyStreams> streams_;
  std::array<Way, 2> ways_;  // by Direction
  CopyList ended_;
  std::size_t in_flight_ = 0;
};

// Blocking copies on the default stream, which waits for kernels. Throws ferry::Error.
void copy_now(const PrimaryContext& context, Direction direction, void* host, DevicePointer device,
              std::size_t bytes);
// The same on a stream of the current context, which needs pinned memory.
void copy_now(const Driver& driver, const GpuStream& stream, Direction direction, void* host,
              DevicePointer device, std::size_t bytes);

}  // namespace ferry::cuda
