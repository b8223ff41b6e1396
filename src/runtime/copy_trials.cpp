#include "runtime/copy_trials.hpp"

#include <algorithm>
#include <chrono>

namespace ferry {
namespace {

using Clock = std::chrono::steady_clock;
using device::StreamingCopies;

constexpr std::uint64_t page_bytes = 64 << 10;

// What a copy past the caches must gain to be worth it. Into a page: anything, since the program
// does not look at the page itself. Out of it: a tenth, since the program then fetches its bytes
// from memory.
constexpr double gain_into = 1.0;
constexpr double gain_out = 1.1;

class CopyTrials {
 public:
  CopyTrials(std::span<unsigned char> pages, std::span<unsigned char> buffer)
      : pages_(pages), buffer_(buffer) {}

  StreamingCopies run() {
    StreamingCopies found{StreamingCopies::never, StreamingCopies::never};
    for (const std::uint64_t bytes : {std::uint64_t{64} << 10, std::uint64_t{1} << 20}) {
      if (!is_faster(into_pages, bytes, gain_into)) continue;
      found.into_bytes_min = bytes;
      break;
    }
    for (const std::uint64_t bytes : {std::uint64_t{4} << 20, trial_buffer_bytes}) {
      if (!is_faster(out_of_pages, bytes, gain_out)) continue;
      found.out_bytes_min = bytes;
      break;
    }
    return found;
  }

 private:
  enum Direction : bool { into_pages, out_of_pages };

  bool is_faster(Direction direction, std::uint64_t bytes, double gain) {
    // The best of a few, since the machine may do other things meanwhile.
    const int rounds = bytes < trial_buffer_bytes ? 3 : 1;
    Clock::duration plain = Clock::duration::max();
    Clock::duration streaming = Clock::duration::max();
    for (int i = 0; i < rounds; ++i) {
      plain = std::min(plain, time_of(direction, bytes, false));
      streaming = std::min(streaming, time_of(direction, bytes, true));
    }
    return static_cast<double>(streaming.count()) * gain < static_cast<double>(plain.count());
  }

  // Of one call, after another that leaves the buffer where such calls leave it.
  Clock::duration time_of(Direction direction, std::uint64_t bytes, bool streaming) {
    call(direction, bytes, streaming);
    const auto begin = Clock::now();
    call(direction, bytes, streaming);
    return Clock::now() - begin;
  }

  // Page by page. Each call takes other pages than the ones before, so that they are in no cache.
  void call(Direction direction, std::uint64_t bytes, bool streaming) {
    if (next_ + bytes > pages_.size()) next_ = 0;
    for (std::uint64_t at = 0; at < bytes; at += page_bytes) {
      unsigned char* page = pages_.data() + next_ + at;
      unsigned char* memory = buffer_.data() + at;
      if (direction == into_pages) {
        device::copy_in(page, memory, page_bytes, streaming);
      } else {
        device::copy_out(memory, page, page_bytes, streaming);
      }
    }
    next_ += bytes;
  }

  std::span<unsigned char> pages_;
  std::span<unsigned char> buffer_;
  std::uint64_t next_ = 0;
};

}  // namespace

StreamingCopies try_streaming_copies(std::span<unsigned char> pages,
                                     std::span<unsigned char> buffer) {
  return CopyTrials(pages, buffer).run();
}

}  // namespace ferry
