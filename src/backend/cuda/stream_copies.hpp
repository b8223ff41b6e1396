// The copy engines of a GPU: a stream for each direction, so that both work at the same time.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "backend/cuda/copy_engine.hpp"
#include "backend/cuda/resources.hpp"

namespace ferry::cuda {

// What copies need of the driver. Made before a kernel runs where one may wait for the copies: the
// driver may let a thread that asks for more wait until every kernel has ended.
struct CopyStreams {
  // How many batches of copies can be under way; the copies that come then share the next event.
  static constexpr std::size_t events_max = 32;

  // Throws ferry::Error.
  explicit CopyStreams(const std::shared_ptr<const PrimaryContext>& context);

  Stream to_device;
  Stream from_device;
  std::vector<std::unique_ptr<Event>> events;
};

// To be made, used and destroyed on one thread, whose current context is the GPU's meanwhile: to
// change it for every call would cost about as much as starting a copy. Its streams do not wait for
// the program's, so copies move while a kernel runs. All copies started between two flushes share
// one event.
class StreamCopies final : public CopyEngine {
 public:
  // With streams of its own. Throws ferry::Error.
  explicit StreamCopies(const std::shared_ptr<const PrimaryContext>& context);
  // With those, which nobody else uses meanwhile; they are whole again when this is destroyed.
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
