// A GPU's copy engines: a stream per direction, so that both work at the same time.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "backend/cuda/copy_engine.hpp"
#include "backend/cuda/resources.hpp"

namespace ferry::cuda {

// The driver's resources for copies. Allocate them before any kernel that may wait for the copies:
// later allocations may wait until every kernel has ended.
struct CopyStreams {
  // Maximum batches of copies in flight; beyond it, copies share the next event.
  static constexpr std::size_t events_max = 32;

  // Throws ferry::Error.
  explicit CopyStreams(const std::shared_ptr<const PrimaryContext>& context);

  Stream to_device;
  Stream from_device;
  std::vector<std::unique_ptr<Event>> events;
};

// Make, use and destroy it on one thread whose current context is the GPU's: switching for every
// call would cost as much as a copy. Its streams are independent of the program's, so copies run
// beside kernels. All copies between two flushes share one event.
class StreamCopies final : public CopyEngine {
 public:
  // With its own streams. Throws ferry::Error.
  explicit StreamCopies(const std::shared_ptr<const PrimaryContext>& context);
  // With exclusively lent ones, which are clean again when this is destroyed.
  StreamCopies(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<CopyStreams> streams);
  ~StreamCopies() override;

  void start(Copy& copy) override;
  void flush() override;
  Copy* reap() override;

 private:
  struct Batch {
    std::unique_ptr<Event> event;
    std::vector<Copy*> copies;
  };
  struct Way {
    StreamHandle stream;
    std::vector<Copy*> started;  // since the last flush
    std::deque<Batch> batches;
    bool wants_event = false;  // a flush found none
  };

  void flush(Way& way);
  bool collect(Way& way);

  const std::shared_ptr<const PrimaryContext> context_;
  const CurrentContext current_;
  const std::shared_ptr<CopyStreams> streams_;
  std::array<Way, 2> ways_;
  std::deque<Copy*> ended_;
};

}  // namespace ferry::cuda
