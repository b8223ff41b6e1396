// The copy engines of a GPU: a stream for each direction, so that both work at the same time.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "devices/cuda/copy_engine.hpp"
#include "devices/cuda/resources.hpp"

namespace ferry::cuda {

// To be made, used and destroyed on one thread, whose current context is the GPU's meanwhile: to
// change it for every call would cost about as much as starting a copy. Its streams do not wait for
// the program's, so copies move while a kernel runs. All copies started between two flushes share
// one event.
class StreamCopies final : public CopyEngine {
 public:
  // Throws ferry::Error.
  explicit StreamCopies(std::shared_ptr<const PrimaryContext> context);
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
    explicit Way(const std::shared_ptr<const PrimaryContext>& context) : stream(context) {}
    Stream stream;
    std::vector<Copy*> started;  // since the last flush
    std::deque<Batch> batches;
  };

  void flush(Way& way);
  bool collect(Way& way);

  const std::shared_ptr<const PrimaryContext> context_;
  const CurrentContext current_;
  std::array<Way, 2> ways_;
  std::vector<Batch> spare_;
  std::deque<Copy*> ended_;
};

}  // namespace ferry::cuda
